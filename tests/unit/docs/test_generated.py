"""The generated pages are what the code says, and the check says where they are not."""

import re
from pathlib import Path

from docs.examples import example_files
from docs.generate import DEFINITIONS, EXAMPLES, REFERENCE, SCHEMAS, drift
from docs.pages import pages
from webhook.catalog.codes import codes
from webhook.catalog.workloads import workloads
from webhook.model.policy import Language
from webhook.policy.definitions import definitions, schemas


def test_nothing_that_is_generated_has_drifted() -> None:
    made = {REFERENCE: pages(), DEFINITIONS: definitions(), SCHEMAS: schemas(), EXAMPLES: example_files()}
    found = [line for root, wanted in made.items() for line in drift(wanted, root)]
    assert not found, "\n".join(found)


def test_every_code_has_its_page_in_every_language() -> None:
    made = pages()
    for folder, language in (("codes", Language.EN), ("codes.ko", Language.KO)):
        assert {f"{folder}/{code}.md" for code in codes()} == {name for name in made if name.startswith(f"{folder}/")}
        for code, one in codes(language).items():
            assert one.title in made[f"{folder}.md"]
            assert one.tune.strip() in made[f"{folder}/{code}.md"]


def test_every_kind_that_is_read_has_its_page_and_a_line_in_the_list() -> None:
    made = pages()
    read = [one for one in workloads().entries if not one.serves]
    own = {name for name in made if name.startswith("kinds/")}
    assert len(own) == len(read)
    assert own == set(re.findall(r"\]\((kinds/[^)]+)\)", made["kinds.md"]))
    for one in read:
        (page,) = (made[name] for name in own if f"# {one.kind}\n" in made[name] and one.source.strip() in made[name])
        assert f"`{one.plural}`" in page


def test_a_changed_page_is_shown_as_a_diff(tmp_path: Path) -> None:
    (tmp_path / "kinds.md").write_text("one\nold\n")
    assert drift({"kinds.md": "one\nnew\n"}, tmp_path) == [
        f"--- {tmp_path.name}/kinds.md",
        "+++ generated from the code",
        "@@ -1,2 +1,2 @@",
        " one",
        "-old",
        "+new",
    ]


def test_a_missing_page_is_drift(tmp_path: Path) -> None:
    assert "+all of it" in drift({"kinds.md": "all of it\n"}, tmp_path)


def test_the_page_of_a_code_or_kind_that_is_no_more_is_named(tmp_path: Path) -> None:
    (tmp_path / "gone.samestep.dev.yaml").write_text("")
    (tmp_path / "gone_v1alpha1.json").write_text("")
    for folder, name in (("codes", "SST999.md"), ("codes.ko", "SST999.md"), ("kinds", "gonejob.md")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_text("")
    assert drift({}, tmp_path) == [
        f"{tmp_path.name}/{name}: no code has it"
        for name in (
            "codes/SST999.md",
            "codes.ko/SST999.md",
            "gone.samestep.dev.yaml",
            "gone_v1alpha1.json",
            "kinds/gonejob.md",
        )
    ]
