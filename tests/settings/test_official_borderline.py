"""The ranges are the official code's: on what is just refused it raises, and with what is just allowed it computes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tdmpc2_lean.errors import UserError
from tdmpc2_lean.patched import materialise

# On the borders of the tiny agent of official_borderline.py: 8 plans, 16 latent dimensions, episodes of 50 steps.
COMPUTES = """
num_pi_trajs=8
num_pi_trajs=0
num_elites=8
num_elites=1
batch_size=1
batch_size=8/2
horizon=1
horizon=50
num_bins=2
simnorm_dim=1
simnorm_dim=16
dropout=1
iterations=0 mpc=false
num_elites=1000 mpc=false
lr=0
grad_clip_norm=inf
grad_clip_norm=0
tau=0
tau=1
rho=0
discount_denom=0.5
temperature=0
min_std=0 max_std=0
steps=1e3
steps=10*100
buffer_size=1e3
model_size=5.0
model_size=null
seed=4294967295
obs=rgb latent_dim=64 num_channels=4
log_std_min=-1.5
exp_name=2024-01-05
consistency_coef=-1
""".strip().splitlines()
RAISES = """
num_pi_trajs=9
num_elites=9
num_elites=0
batch_size=0
batch_size=4.0
horizon=0
horizon=51
num_bins=1
vmin=10
simnorm_dim=7
dropout=1.1
iterations=0
iterations=1.5
lr=-1
discount_denom=0
model_size=7
seed=1.5
seed=-1
seed=4294967296
obs=rgb
obs=pixels
exp_name=1
exp_name=2024-11-05
num_q=2.0
""".strip().splitlines()


@pytest.fixture(scope="module")
def on_official_code(official, tmp_path_factory):
    """What the official code, patched so that it runs on a CPU, makes of all the words: {words: error or None}."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TDMPC2_LEAN_CACHE", str(tmp_path_factory.mktemp("cache")))
        code_dir = materialise(official, None).code_dir
        script = Path(__file__).with_name("official_borderline.py")
        done = subprocess.run(
            [sys.executable, str(script), str(code_dir)],
            input="\n".join([*COMPUTES, *RAISES]),
            capture_output=True,
            text=True,
            cwd=tmp_path_factory.mktemp("cwd"),
        )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("words", COMPUTES)
def test_the_official_code_computes_with_what_is_just_allowed(on_official_code, words):
    assert on_official_code[words] is None


@pytest.mark.parametrize("words", RAISES)
def test_the_official_code_raises_on_what_is_just_refused(on_official_code, words):
    assert on_official_code[words] is not None


# The miniature has no pictures, its episodes are longer, and a name that reads as a number is quoted for the user.
ELSEWHERE = ("obs=rgb", "horizon=51", "exp_name=1")
TINY = "num_samples=8 num_elites=4 num_pi_trajs=2 iterations=1 horizon=2 latent_dim=16".split()


@pytest.mark.parametrize("words", [words for words in COMPUTES if not words.startswith("obs=rgb")])
def test_the_checks_allow_what_the_official_code_computes_with(checked, words):
    names = {word.partition("=")[0] for word in words.split()}
    if words.startswith("model_size=5"):
        names |= {"latent_dim"}
    checked(*(word for word in TINY if word.partition("=")[0] not in names), *words.split())


@pytest.mark.parametrize("words", [words for words in RAISES if words not in ELSEWHERE])
def test_the_checks_refuse_what_the_official_code_raises_on(checked, words):
    names = {word.partition("=")[0] for word in words.split()}
    with pytest.raises(UserError):
        checked(*(word for word in TINY if word.partition("=")[0] not in names), *words.split())
