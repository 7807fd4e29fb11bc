"""From what a job's trainer is told to a training run whose memory can be estimated."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, TypeVar

from webhook.catalog.launchers import launchers
from webhook.catalog.models import Guess, ModelSpec, models
from webhook.model.job import Said, Told, TrainingJob
from webhook.sizing.estimate import Estimate, Part, estimate
from webhook.sizing.training import (
    Attention,
    Checkpointing,
    Loss,
    Method,
    Offload,
    Optimizer,
    Parallel,
    Precision,
    Training,
)

_Choice = TypeVar("_Choice", bound=StrEnum)
_LARGEST = 1 << 24
_METHOD: Final = {Method.FULL: "full fine-tuning", Method.LORA: "LoRA", Method.QLORA: "QLoRA"}
_ELSEWHERE = "elsewhere"


@dataclass(frozen=True, slots=True)
class Sizable:
    """A run that can be estimated. `lean` stands in for it at the low end, where the job leaves open how ranks share.

    `may_deny`: firm enough to refuse a job (docs/explanation/how-it-decides.md, Memory). `assumptions` are sentences
    for a message; `read` is what was told, by setting; `open` says, one sentence each, why it may not deny.
    """

    training: Training
    may_deny: bool
    assumptions: tuple[str, ...]
    read: Mapping[str, Said]
    open: tuple[str, ...] = ()
    lean: Training | None = None

    def estimate(self) -> Estimate:
        """The memory of one rank."""
        found = estimate(self.training)
        if self.lean is None:
            return found
        low = estimate(self.lean)
        parts = tuple(
            Part(part.name, least.low_mib, part.likely_mib, part.high_mib)
            for part, least in zip(found.parts, low.parts, strict=True)
        )
        return replace(found, low_mib=low.low_mib, parts=parts)


@dataclass(frozen=True, slots=True)
class Unsizable:
    """Nothing to estimate."""

    why: str


def training_of(job: TrainingJob, micro_batch: int) -> Sizable | Unsizable:
    """The training run of this job with so many samples on one device in one pass.

    What the job does not tell is the trainer's documented default, named as an assumption, or left open, so that the
    interval is wide.
    """
    told = job.told
    if told is None:
        return Unsizable("no trainer that is known was found in its command")
    if not told.trains:
        return Unsizable(f"nothing shows that {told.trainer} trains here")
    said = told.settings.get("model")
    if said is None:
        return Unsizable(f"no flag of {told.trainer} names the model")
    model = models().find(said.value) or models().guess(said.value)
    if model is None:
        return Unsizable(f'no model "{said.value}" is known, and its name tells no size')
    return _Run(job, told, model).sizable(micro_batch)


class _Run:
    """Collects what is assumed and what is open while the settings are looked up."""

    def __init__(self, job: TrainingJob, told: Told, model: ModelSpec | Guess) -> None:
        self._job = job
        self._told = told
        self._model = model
        self._defaults = launchers().trainers.defaults.get(told.trainer, {})
        self._assumed: list[str] = []
        self._open = list(_unread(told))
        if isinstance(model, Guess):
            self._open.insert(0, f'the model "{model.name}" is guessed from the size in its name')

    def sizable(self, micro_batch: int) -> Sizable:
        settings, roles = self._told.settings, self._job.device_roles
        tensor, pipeline, context = (
            self._number(name) or 1 for name in ("tensorParallel", "pipelineParallel", "contextParallel")
        )
        least = tensor * pipeline * context
        world = max(sum(role.pods * role.devices for role in roles), 1)
        if world % least:
            self._open.append(f"{world} devices are no multiple of tensor × pipeline × context parallel ({least})")
            world = max(world // least, 1) * least
        method = self._method()
        optimizer = self._optimizer()
        precision = self._precision()
        parallel, lean = self._parallel(world // least)
        capped = "seqLen" not in settings and "packed" not in settings
        training = Training(
            model=self._model,
            micro_batch=micro_batch,
            seq_len=self._number("seqLen") or self._number("maxSeqLen"),
            method=method,
            precision=precision,
            optimizer=optimizer,
            parallel=parallel,
            world_size=world,
            shards=min((role.devices for role in roles), default=1) if self._value("parallel") == "hybrid" else None,
            tensor_parallel=tensor,
            pipeline_parallel=pipeline,
            context_parallel=context,
            sequence_parallel=self._value("sequenceParallel") == "true" if tensor > 1 else None,
            accumulation=self._job.batch.accumulation.value if self._job.batch.accumulation else None,
            checkpointing=self._choice(Checkpointing, "checkpointing"),
            attention=self._choice(Attention, "attention"),
            offload=self._offload(),
            activation_offload=self._value("activationOffload") == "true",
            loss=self._choice(Loss, "loss") or Loss.WHOLE,
            packed=None if capped else True,
            adapter_rank=self._number("adapterRank") if method is not Method.FULL else None,
        )
        return Sizable(
            training=training,
            may_deny=not self._open,
            assumptions=tuple(self._assumed),
            read=settings,
            open=tuple(self._open),
            lean=None if lean is None else replace(training, parallel=lean, offload=Offload.ALL),
        )

    def _method(self) -> Method:
        settings = self._told.settings
        told = self._choice(Method, "method") or (Method.LORA if "adapterRank" in settings else None)
        if "quantized" in settings:
            # Weights in 4 bits are not trained.
            told = Method.QLORA
        method = told or self._choice_of(Method, self._defaults.get("method"))
        partial = settings.get("partial")
        if method is None:
            self._open.append("the method is not told")
        elif partial is not None and method is Method.FULL:
            self._open.append(f'"{partial.value}" in {partial.name} may mean that not all parameters are trained')
        elif told is None:
            because = "no adapter flag" if method is Method.FULL else f"the default of {self._told.trainer}"
            self._assumed.append(f"assumes {_METHOD[method]}: {because}")
        return method or Method.FULL

    def _optimizer(self) -> Optimizer | None:
        told = self._choice(Optimizer, "optimizer")
        if told is not None:
            return told
        default = self._choice_of(Optimizer, self._defaults.get("optimizer"))
        if default is None:
            self._open.append("the optimizer is not told")
        else:
            self._assumed.append(f"assumes {default.value}: the default of {self._told.trainer}")
        return default

    def _precision(self) -> Precision | None:
        """bf16 alone does not say whether the weights are loaded in 16 or in 32 bits; fp16 has to scale gradients of
        32-bit weights (torch.amp.GradScaler)."""
        match self._value("precision"), self._value("weights"):
            case "bf16", "fp32":
                return Precision.MIXED
            case "bf16", _:
                self._assumed.append("assumes weights loaded in 16 bits at the low end: bf16 alone does not say it")
                return None
            case "fp16", _:
                return Precision.MIXED
            case str(value), _ if value:
                return self._choice_of(Precision, value)
        default = self._defaults.get("precision")
        if default is None:
            self._open.append("the precision is not told")
        elif default == "any":
            self._assumed.append("assumes 16 bits throughout at the low end: no precision flag")
        else:
            self._assumed.append(f"assumes {default} precision: the default of {self._told.trainer}")
        return self._choice_of(Precision, default)

    def _parallel(self, replicas: int) -> tuple[Parallel, Parallel | None]:
        """How ranks share, and what stands in for it at the low end: where a configuration that is not read decides,
        everything may be sharded and on the host; ZeRO 2 is the heaviest that is usual in one."""
        value = self._value("parallel")
        if value == _ELSEWHERE or (not value and self._defaults.get("parallel") == _ELSEWHERE):
            self._open.append("how ranks share weights and states is told in a configuration that is not read")
            return Parallel.ZERO2, Parallel.ZERO3
        if value == "hybrid":
            return Parallel.FSDP, None
        told = self._choice(Parallel, "parallel")
        if told is not None:
            return told, None
        if replicas == 1:
            return Parallel.SINGLE, None
        if not self._told.launched and any(role.devices > 1 for role in self._job.device_roles):
            # nn.DataParallel, or one model over all devices (device_map="auto").
            self._open.append("no launcher starts a process for each device: the model may be spread over them")
            return Parallel.DDP, Parallel.FSDP
        default = self._choice_of(Parallel, self._defaults.get("parallel")) or Parallel.DDP
        self._assumed.append(f"assumes {default.value}: no flag that shards")
        return default, None

    def _offload(self) -> Offload:
        if "offloadWeights" in self._told.settings:
            return Offload.ALL
        return self._choice(Offload, "offload") or Offload.NONE

    def _choice(self, kind: type[_Choice], setting: str) -> _Choice | None:
        return self._choice_of(kind, self._value(setting))

    @staticmethod
    def _choice_of(kind: type[_Choice], value: str | None) -> _Choice | None:
        return kind(value) if value in {one.value for one in kind} else None

    def _value(self, setting: str) -> str:
        said = self._told.settings.get(setting)
        return said.value if said else ""

    def _number(self, setting: str) -> int | None:
        said = self._told.settings.get(setting)
        if said is None:
            return None
        value = said.value
        if value.isascii() and value.isdigit() and len(value) < 10 and 0 < int(value) <= _LARGEST:
            return int(value)
        self._open.append(f"{said.name} {value!r} is no number that can be read")
        return None


def _unread(told: Told) -> Iterator[str]:
    for said in told.unread:
        yield f"{said.name} {said.value}".strip() + " is not read"
