"""From what a job's trainer is told to a training run whose memory can be estimated."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Final, TypeVar

from webhook.catalog.launchers import launchers
from webhook.catalog.models import Family, Guess, ModelSpec, OtherModel, models
from webhook.model.finding import Phrase
from webhook.model.frozen import frozen
from webhook.model.job import Said, Told, TrainingJob
from webhook.sizing.estimate import Estimate, Part, estimate, parameter_bound_mib
from webhook.sizing.measured import MeasuredRun, measured_run
from webhook.sizing.shape import shape_of
from webhook.sizing.states import SHARDED_WEIGHTS
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


@frozen
class Sizable:
    """A run that can be estimated. `lean` stands in for it at the low end, where the job leaves open how ranks share.

    `may_deny`: firm enough to refuse a job (docs/explanation/how-it-decides.md, Memory). `assumptions` are sentences
    for a message; `read` is what was told, by setting; `open` says, one sentence each, why it may not deny.
    """

    training: Training
    may_deny: bool
    assumptions: tuple[Phrase, ...]
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


@frozen
class Unsizable:
    """Nothing to estimate."""

    why: str


def training_of(job: TrainingJob, micro_batch: int) -> Sizable | MeasuredRun | Unsizable:
    """The training run of this job with so many samples on one device in one pass.

    What the job does not tell is the trainer's documented default, named as an assumption, or left open, so that the
    interval is wide.
    """
    found = _found(job)
    if isinstance(found, Unsizable):
        return found
    told, model = found
    if not isinstance(model, OtherModel):
        return _Run(job, told, model).sizable(micro_batch)
    precision = Precision.MIXED if _value(told, "precision") in ("bf16", "fp16") else None
    # Nobody measured them with recompute.
    run = measured_run(model, micro_batch, precision) if _value(told, "checkpointing") in ("", "none") else None
    return run or Unsizable(f"{model.name} is a {model.what} model: what a sample takes is not known")


def bound_of(job: TrainingJob) -> float | None:
    """MiB that the parameters alone take at the least; None where no model is known by name, or weights may lie on the
    host."""
    found = _found(job)
    if isinstance(found, Unsizable):
        return None
    told, model = found
    if isinstance(model, Guess):
        return None
    if isinstance(model, OtherModel):
        return parameter_bound_mib(model.parameters, _world(job))
    run = _Run(job, told, model).sizable(1)
    training = run.lean or run.training
    sharded = training.parallel in SHARDED_WEIGHTS
    if run.training.offload is Offload.ALL and sharded:
        return None
    shards = training.tensor_parallel * training.pipeline_parallel * (training.sharing if sharded else 1)
    return parameter_bound_mib(model.counts.total, shards)


def _found(job: TrainingJob) -> tuple[Told, ModelSpec | Guess | OtherModel] | Unsizable:
    """What the job's trainer is told, and the model that it trains."""
    told = job.told
    if told is None:
        return Unsizable("no trainer that is known was found in its command")
    if not told.trains:
        return Unsizable(f"nothing shows that {told.trainer} trains here")
    name = "-".join(filter(None, (_value(told, "model"), _value(told, "flavor"))))
    if not name:
        tensor = _value(told, "tensorParallel")
        shape = shape_of(told.settings, int(tensor) if tensor.isdecimal() and 0 < len(tensor) < 5 else 1)
        return (told, shape) if shape else Unsizable(f"no flag of {told.trainer} names the model")
    model = models().find(name) or models().other(name) or models().guess(name)
    return (told, model) if model else Unsizable(f'no model "{name}" is known, and its name tells no size')


def _value(told: Told, setting: str) -> str:
    said = told.settings.get(setting)
    return said.value if said else ""


def _world(job: TrainingJob) -> int:
    return max(sum(role.pods * role.devices for role in job.device_roles), 1)


class _Run:
    """Collects what is assumed and what is open while the settings are looked up."""

    def __init__(self, job: TrainingJob, told: Told, model: ModelSpec | Guess) -> None:
        self._job = job
        self._told = told
        self._model = model
        self._defaults = launchers().trainers.defaults.get(told.trainer, {})
        self._assumed: list[Phrase] = []
        self._open = list(_unread(told))
        if isinstance(model, Guess):
            self._open.insert(0, f'the model "{model.name}" {model.because}')
        elif not model.source:
            self._open.insert(0, "the model is a shape that flags give, not one known by name")

    def sizable(self, micro_batch: int) -> Sizable:
        settings = self._told.settings
        tensor, pipeline, context = (
            self._number(name) or 1 for name in ("tensorParallel", "pipelineParallel", "contextParallel")
        )
        least = tensor * pipeline * context
        world = _world(self._job)
        if world % least:
            self._open.append(f"{world} devices are no multiple of tensor × pipeline × context parallel ({least})")
            world = max(world // least, 1) * least
        method = self._method()
        optimizer = self._optimizer()
        parallel, lean = self._parallel(world // least)
        precision = self._precision(method, parallel)
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
            shards=min((role.devices for role in self._job.device_roles), default=1)
            if self._value("parallel") == "hybrid"
            else None,
            tensor_parallel=tensor,
            pipeline_parallel=pipeline,
            context_parallel=context,
            sequence_parallel=self._value("sequenceParallel") == "true" if tensor > 1 else None,
            accumulation=self._job.batch.accumulation.value if self._job.batch.accumulation else None,
            checkpointing=self._choice(Checkpointing, "checkpointing")
            or self._choice_of(Checkpointing, self._defaults.get("checkpointing")),
            attention=self._choice(Attention, "attention"),
            offload=self._offload(),
            activation_offload=self._value("activationOffload") == "true",
            loss=self._loss(),
            fp32_gradients={"fp32": True, "half": False}.get(self._told_or_default("gradients")),
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

    def _assume(self, why: str, what: str = "") -> None:
        self._assumed.append(Phrase(f"assumes_{why}", {"what": what, "trainer": self._told.trainer}))

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
            because = "no_adapter" if method is Method.FULL else "default"
            self._assume(because, _METHOD[method])
        return method or Method.FULL

    def _optimizer(self) -> Optimizer | None:
        told = self._choice(Optimizer, "optimizer")
        if told is not None:
            return told
        default = self._choice_of(Optimizer, self._defaults.get("optimizer"))
        if default is None:
            self._open.append("the optimizer is not told")
        else:
            self._assume("default", default.value)
        return default

    def _precision(self, method: Method, parallel: Parallel) -> Precision | None:
        """bf16 alone does not say whether the weights are loaded in 16 or in 32 bits; fp16 has to scale gradients of
        32-bit weights (torch.amp.GradScaler). Of 16-bit weights, sharded training under bf16 may make 32-bit ones again
        (DeepSpeed's masters; Accelerate upcasts under FSDP). Adapters are trained in 32 bits beside weights in 16
        (PEFT, autocast_adapter_dtype)."""
        full, alone = method is Method.FULL, parallel in (Parallel.SINGLE, Parallel.DDP)
        match self._value("precision"), self._value("weights"):
            case "bf16" | "fp16", "fp32":
                # Frozen weights stay in 32 bits.
                return Precision.MIXED if full else None
            case "" | "bf16" as value, "half" if alone or not value:
                return Precision.PURE if full else Precision.MIXED
            case "bf16", _:
                self._assume("bf16_weights")
                return None
            case "fp16", _:
                return Precision.MIXED if full else None
            case "", "fp32":
                return Precision.FP32
            case str(value), _ if value:
                return self._choice_of(Precision, value)
        default = self._defaults.get("precision")
        if default is None:
            self._open.append("the precision is not told")
        elif default == "any":
            self._assume("no_precision")
        else:
            self._assume("default_precision", default)
        return self._choice_of(Precision, default)

    def _loss(self) -> Loss | None:
        """Which part of the logits there is at once; None where releases of the trainer differ."""
        told = self._choice(Loss, "loss")
        if told is not None:
            return told
        default = self._choice_of(Loss, self._defaults.get("loss"))
        if default is Loss.WHOLE:
            self._assume("whole_logits")
        elif default is None and self._has_logits():
            self._assume("chunked_logits")
        return default

    def _has_logits(self) -> bool:
        return isinstance(self._model, Guess) or self._model.style.family is not Family.ENCODER

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
        self._assume("no_sharding", default.value)
        return default, None

    def _offload(self) -> Offload:
        if "offloadWeights" in self._told.settings:
            return Offload.ALL
        return self._choice(Offload, "offload") or Offload.NONE

    def _choice(self, kind: type[_Choice], setting: str) -> _Choice | None:
        return self._choice_of(kind, self._value(setting))

    @staticmethod
    def _choice_of(kind: type[_Choice], value: str | None) -> _Choice | None:
        try:
            return kind(value) if value else None
        except ValueError:
            return None

    def _value(self, setting: str) -> str:
        return _value(self._told, setting)

    def _told_or_default(self, setting: str) -> str:
        return self._value(setting) or self._defaults.get(setting, "")

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
