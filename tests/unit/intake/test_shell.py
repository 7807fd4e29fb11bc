"""What our reader makes of a script is what bash makes of it."""

import shutil
import subprocess

import pytest

from tests.unit.intake.jobs import container
from webhook.intake.commands import invocations
from webhook.intake.environment import Environment
from webhook.intake.words import Budget

SCRIPTS = [
    "torchrun a b",
    "torchrun 'a b' \"c d\" e\\ f",
    "torchrun \\\n  a \\\n  b",
    'torchrun t --x=\'1\' --y="2""3"',
    "X=4; torchrun --n=$X ${X} \"$X\" '$X' \\$X",
    "torchrun t ${NONE:-8} ${NONE-9} ${EMPTY:-7} ${EMPTY-6} ${SET:-5}",
    'torchrun "${NONE:-a b}" ${NONE:-c d}',
    "torchrun ${NONE:-${SET:-1}}",
    "A='x y'; torchrun $A \"$A\"",
    "A=x; A+=y; A=${A}z; torchrun $A",
    "A=(one 'two three' $SET); A+=(four); torchrun \"${A[@]}\"",
    'export A=1 B="$SET"; torchrun $A$B',
    "true && torchrun a && true",
    "true; torchrun a | cat; true",
    "torchrun a 2>&1 | tee /dev/null",
    "{ torchrun a; }",
    "( torchrun a )",
    "torchrun a # b\n",
    "torchrun a#b",
    "torchrun a 2>/dev/null b </dev/null c",
    "torchrun a\\\nb",
    "torchrun 'a\\\nb'",
    "if true; then torchrun a; fi",
    "cat >/dev/null <<EOF\ntorchrun no\nEOF\ntorchrun yes",
    "cat >/dev/null <<'EOF'\n$(torchrun no)\nEOF\ntorchrun yes",
    "cat >/dev/null <<-EOF\n\tno\n\tEOF\ntorchrun yes",
    "cat <<A >/dev/null; cat <<B >/dev/null\na\nA\nb\nB\ntorchrun yes",
    "torchrun $'a b'",
    "torchrun '' \"\" a",
    "set -euo pipefail\ntorchrun a",
    'torchrun "a\\"b" "c\\$d" "e\\f"',
    "torchrun '{a,b}'",
    "torchrun a=b --c=d=e +f=g",
    'torchrun "$@"',
    'set_up() { true; }; torchrun "$1" $2',
    "bash -c 'torchrun \"$0\" $1' x y",
]


@pytest.mark.parametrize("script", SCRIPTS)
def test_words_are_as_bash_has_them(script: str) -> None:
    bash = shutil.which("bash")
    assert bash is not None, "the Makefile needs it too"
    stub = 'torchrun() { printf "%s\\0" "$@"; }; export -f torchrun\n'
    environment = {"SET": "5", "EMPTY": "", "PATH": "/usr/bin:/bin"}
    arguments = ["first", "second"]
    ran = subprocess.run(
        [bash, "-c", stub + script, "bash", *arguments], env=environment, capture_output=True, check=True
    )
    env = [{"name": name, "value": value} for name, value in environment.items()]
    source = container("bash", "-c", script, "bash", *arguments, env=env)
    budget = Budget()
    found = invocations(source, (), Environment(source, (), budget), budget)
    (program,) = [one for one in found if one.launches]
    start = next(index for index, text in enumerate(program.words.texts) if text == "torchrun") + 1
    assert list(program.words.texts[start:]) == ran.stdout.decode().split("\0")[:-1]
