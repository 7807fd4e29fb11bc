"""Vision and diffusion models: what training took when somebody measured it, from the catalog."""

from webhook.catalog.models import Measured, OtherModel
from webhook.model.finding import Phrase
from webhook.model.frozen import frozen
from webhook.sizing.estimate import Estimate
from webhook.sizing.terms import HIGH, LIKELY, LOW
from webhook.sizing.training import Precision


@frozen
class MeasuredRun:
    """A run of a model that was measured elsewhere. `leanest` and `heaviest` are the figures of its precision, or where
    that is not told, of all that were measured. Others' setups differ, so it never denies."""

    model: OtherModel
    micro_batch: int
    leanest: Measured
    heaviest: Measured
    may_deny: bool = False

    @property
    def assumptions(self) -> tuple[Phrase, ...]:
        """What was measured."""
        ways = dict.fromkeys(one.how for one in (self.leanest, self.heaviest))
        return tuple(Phrase("measured", {"how": how}) for how in ways)

    def estimate(self) -> Estimate:
        """The memory of one rank; it has no parts."""
        return self.at(self.micro_batch)

    def at(self, micro_batch: int) -> Estimate:
        """The same with another micro-batch."""
        low, likely, high = (
            one.fixed.ends[end] + one.per_sample.ends[end] * micro_batch
            for one, end in ((self.leanest, LOW), (self.leanest, LIKELY), (self.heaviest, HIGH))
        )
        return Estimate(low, likely, high, ())


def measured_run(model: OtherModel, micro_batch: int, precision: Precision | None) -> MeasuredRun | None:
    """The run of this model; None where nobody measured it in this precision."""
    fitting = [one for one in model.measured if precision is None or one.precision == precision.value]
    if not fitting:
        return None
    by_sample = sorted(fitting, key=lambda one: one.per_sample.likely)
    return MeasuredRun(model, micro_batch, by_sample[0], by_sample[-1])
