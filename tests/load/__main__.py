"""`python -m tests.load`: what a choice at creation costs in waiting, over many streams and without a cluster."""

from tests.load.stream import PerfectView, late_choice, simulate, stream, waited

NODES = {"a": 4, "b": 4}
SEEDS = range(8)


def main() -> None:
    """One row for each load: minutes that 40 jobs wait on average, and how many times the rule's own that is."""
    print("nodes asked for | no rule | one model, chosen late | one model, chosen at creation")
    for apart in (8, 10, 12):
        streams = [stream(seed, 40, apart=apart, lasts=35, largest=3) for seed in SEEDS]
        jobs = sum(map(len, streams))
        plain, pinned = (
            sum(waited(simulate(each, NODES, PerfectView(NODES, pins=pins))) for each in streams) / jobs
            for pins in (False, True)
        )
        late = sum(late_choice(each, NODES) for each in streams) / jobs
        asked = 2 * 35 / apart / sum(NODES.values())
        print(f"{asked:.0%} | {plain:.0f} min | {late:.0f} min | {pinned:.0f} min ({pinned / late:.2f} times)")


if __name__ == "__main__":
    main()
