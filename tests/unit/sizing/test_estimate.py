"""Device memory of one rank: parts, ends, and the largest batch that fits."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.catalog.models import Guess, ModelSpec, models
from webhook.sizing.estimate import Estimate, estimate, explain, largest_micro_batch, parameter_bound_mib
from webhook.sizing.terms import HIGH, LIKELY, LOW, PartName
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

_GIB = 1024


def _model(name: str) -> ModelSpec:
    spec = models().find(name)
    assert spec is not None
    return spec


def _full(**changes: object) -> Training:
    """Everything said: Llama 3.1 8B, mixed precision, AdamW, recompute, one device."""
    said = Training(
        _model("meta-llama/Llama-3.1-8B"),
        micro_batch=1,
        seq_len=2048,
        precision=Precision.MIXED,
        optimizer=Optimizer.ADAMW,
        checkpointing=Checkpointing.FULL,
        attention=Attention.FLASH,
        accumulation=1,
        compiled=False,
    )
    return replace(said, **changes)  # type: ignore[arg-type]


def _part(found: Estimate, name: PartName) -> float:
    return next(part.likely_mib for part in found.parts if part.name is name)


@st.composite
def trainings(draw: st.DrawFn) -> Training:
    """Any run that can be told, of models of each build; None for what is not told."""

    known = models()
    guess = known.guess("any-7b")
    assert guess is not None
    shapes = ("gpt2", "bert-base-uncased", "Llama-3.1-8B", "t5-base", "Mixtral-8x7B-v0.1", "DeepSeek-V2-Lite")
    tensor, pipeline = draw(st.sampled_from([1, 2, 8])), draw(st.sampled_from([1, 2, 8]))
    some: list[ModelSpec | Guess] = [guess, *(_model(name) for name in shapes)]
    return Training(
        model=draw(st.sampled_from(some)),
        micro_batch=draw(st.integers(1, 64)),
        seq_len=draw(st.integers(1, 16_384)),
        method=draw(st.sampled_from(Method)),
        precision=draw(st.none() | st.sampled_from(Precision)),
        optimizer=draw(st.none() | st.sampled_from(Optimizer)),
        parallel=draw(st.sampled_from(Parallel)),
        world_size=draw(st.sampled_from([1, 2, 16])) * tensor * pipeline,
        tensor_parallel=tensor,
        pipeline_parallel=pipeline,
        accumulation=draw(st.sampled_from([None, 1, 8])),
        checkpointing=draw(st.none() | st.sampled_from(Checkpointing)),
        attention=draw(st.none() | st.sampled_from(Attention)),
        offload=draw(st.sampled_from(Offload)),
        loss=draw(st.sampled_from(Loss)),
        packed=draw(st.sampled_from([None, True, False])),
    )


@given(trainings())
def test_low_likely_and_high_rise_and_the_parts_add_up(training: Training) -> None:
    found = estimate(training)
    assert 0 < found.low_mib <= found.likely_mib <= found.high_mib
    assert sum(part.likely_mib for part in found.parts) == pytest.approx(found.likely_mib)


@given(trainings())
def test_a_larger_micro_batch_or_a_longer_sequence_never_needs_less(training: Training) -> None:
    one = estimate(training)
    assert training.seq_len is not None
    for larger in (
        replace(training, micro_batch=training.micro_batch + 1),
        replace(training, seq_len=training.seq_len + 1),
    ):
        other = estimate(larger)
        assert other.low_mib >= one.low_mib
        assert other.likely_mib >= one.likely_mib
        assert other.high_mib >= one.high_mib


@given(trainings(), st.floats(500, 300_000), st.sampled_from([LOW, LIKELY, HIGH]))
def test_the_largest_micro_batch_is_the_exact_inverse(training: Training, usable_mib: float, end: int) -> None:
    def needs(micro_batch: int) -> float:
        found = estimate(replace(training, micro_batch=micro_batch))
        return (found.low_mib, found.likely_mib, found.high_mib)[end]

    largest = largest_micro_batch(training, usable_mib, end)
    assert largest == 0 or needs(largest) <= usable_mib
    assert largest == 1 << 20 or needs(largest + 1) > usable_mib


def test_states_of_full_mixed_training_take_sixteen_bytes_a_parameter() -> None:
    found = estimate(_full())
    parameters = _model("meta-llama/Llama-3.1-8B").counts.total
    states = sum(_part(found, name) for name in (PartName.WEIGHTS, PartName.GRADIENTS, PartName.OPTIMIZER))
    assert states == pytest.approx(parameters * 16 / 2**20)


def test_70b_under_fsdp_of_16_takes_70_gb_of_states_on_each_device() -> None:
    seventy = _full(model=_model("meta-llama/Llama-3.1-70B"), parallel=Parallel.FSDP, world_size=16)
    found = estimate(seventy)
    states = sum(_part(found, name) for name in (PartName.WEIGHTS, PartName.GRADIENTS, PartName.OPTIMIZER))
    assert states * 2**20 == pytest.approx(70.55e9, rel=0.01)
    assert found.low_mib > 32_607


def test_each_zero_stage_needs_less_than_the_one_before() -> None:
    stages = (Parallel.DDP, Parallel.ZERO1, Parallel.ZERO2, Parallel.ZERO3)
    needs = [estimate(_full(parallel=stage, world_size=8)).likely_mib for stage in stages]
    assert needs == sorted(needs, reverse=True)


def test_adapters_need_less_and_on_four_bits_least() -> None:
    needs = [estimate(_full(method=method)).likely_mib for method in (Method.FULL, Method.LORA, Method.QLORA)]
    assert needs == sorted(needs, reverse=True)
    assert needs[2] < 24 * _GIB < needs[0]


def test_offloaded_states_are_not_on_the_device() -> None:
    found = estimate(_full(parallel=Parallel.ZERO3, world_size=8, offload=Offload.ALL))
    assert _part(found, PartName.WEIGHTS) == _part(found, PartName.OPTIMIZER) == 0


def test_recompute_trades_the_activations_of_all_layers_for_their_inputs() -> None:
    none, selective, full = (
        _part(estimate(_full(micro_batch=32, checkpointing=one)), PartName.ACTIVATIONS)
        for one in (Checkpointing.NONE, Checkpointing.SELECTIVE, Checkpointing.FULL)
    )
    assert none > 2 * selective > 2 * full


def test_eager_attention_grows_with_the_square_of_the_length() -> None:
    def activations(seq_len: int) -> float:
        run = _full(seq_len=seq_len, attention=Attention.EAGER, checkpointing=Checkpointing.NONE)
        return _part(estimate(run), PartName.ACTIVATIONS)

    assert activations(16_384) > 3 * activations(8_192)


def test_tensor_and_context_parallel_ranks_hold_a_share_each() -> None:
    one = _full(seq_len=8_192, checkpointing=Checkpointing.NONE)
    whole = _part(estimate(one), PartName.ACTIVATIONS)
    tensor = estimate(replace(one, tensor_parallel=4, world_size=4, sequence_parallel=True))
    context = estimate(replace(one, context_parallel=4, world_size=4))
    assert _part(tensor, PartName.ACTIVATIONS) < whole / 2
    assert _part(context, PartName.ACTIVATIONS) < whole / 2


def test_the_first_of_several_pipeline_stages_holds_as_many_micro_batches() -> None:
    staged = _full(micro_batch=8, pipeline_parallel=8, world_size=8, checkpointing=Checkpointing.NONE)
    few, many = (estimate(replace(staged, accumulation=passes)) for passes in (1, 64))
    assert _part(many, PartName.ACTIVATIONS) > 7 * _part(few, PartName.ACTIVATIONS)
    assert _part(many, PartName.LOGITS) == 0 < _part(few, PartName.LOGITS)


def test_the_loss_in_chunks_never_makes_all_logits_in_32_bits() -> None:
    loss = [_part(estimate(_full(micro_batch=64, precision=Precision.PURE, loss=one)), PartName.LOGITS) for one in Loss]
    assert loss[0] > 3 * loss[1] > 9 * loss[2]


def test_what_is_not_told_widens_the_interval() -> None:
    told = estimate(_full())
    open_ended = estimate(Training(_model("meta-llama/Llama-3.1-8B"), micro_batch=1, seq_len=2048))
    assert open_ended.low_mib < told.low_mib
    assert open_ended.high_mib > told.high_mib


def test_a_sequence_length_that_is_only_a_cap_lowers_the_low_end() -> None:
    filled, capped = estimate(_full(seq_len=8_192)), estimate(_full(seq_len=8_192, packed=None))
    assert capped.low_mib < filled.low_mib
    assert capped.high_mib == filled.high_mib


def test_an_unknown_sequence_length_is_taken_short_to_long() -> None:
    unknown, short, long = (estimate(_full(seq_len=length)) for length in (None, 128, 4096))
    assert unknown.low_mib == short.low_mib
    assert unknown.high_mib == long.high_mib


def test_a_guessed_model_is_called_a_guess_and_is_wide() -> None:
    guess = models().guess("unheard-of-8b")
    assert guess is not None
    guessed, known = estimate(_full(model=guess)), estimate(_full())
    assert guessed.guessed
    assert guessed.low_mib < known.low_mib
    assert guessed.high_mib > known.high_mib


def test_every_term_explains_itself_with_numbers_and_a_source() -> None:
    terms = explain(_full(parallel=Parallel.ZERO2, world_size=8))
    assert sum(term.bytes for term in terms) / 2**20 == pytest.approx(
        estimate(_full(parallel=Parallel.ZERO2, world_size=8)).likely_mib
    )
    assert all(term.formula and "{" not in term.formula and term.source for term in terms)
    assert "8,030,261,248 parameters × 2 B ÷ 1" in {term.formula for term in terms}


def test_parameters_alone_bound_what_is_needed() -> None:
    assert parameter_bound_mib(2**20 * 80, shards=8) == 5
