"""A training that is killed outright, and goes on."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from whyrank.lab.simulate import simulate
from whyrank.models import BPER
from whyrank.training import FactorSettings, Run, train

SCRIPT = """
import sys
from pathlib import Path
from test_kill import data_and_model, settings
from whyrank.training import Monitor, Run, train

class Tell(Monitor):
    def on_epoch(self, epoch, storage):
        print(epoch.number, flush=True)
        return False

data, model = data_and_model()
run = Run(threads=1, monitors=(Tell(),), checkpoint=Path(sys.argv[1]), resume=True, checkpoint_seconds=0.0)
train(model.tables(data), model.passes(data), settings(), run)
"""


def data_and_model():
    data = simulate("small", users=150, items=40, explanations=80, records=1500, triplets=2600, seed=3)
    return data, BPER(factors=8)


def settings() -> FactorSettings:
    return FactorSettings(epochs=1000, seed=4)


def test_a_run_killed_at_any_moment_resumes_to_the_same_bits(tmp_path: Path) -> None:
    data, model = data_and_model()
    undisturbed = train(model.tables(data), model.passes(data), settings())
    checkpoint = tmp_path / "run.safetensors"
    for least in (3, 40, 200):  # killed three times, each time some epochs further, wherever it then is
        command = [sys.executable, "-c", SCRIPT, str(checkpoint)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parent) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if int(line) >= least:
                    process.send_signal(signal.SIGKILL)
                    break
            process.wait()
        assert process.returncode == -signal.SIGKILL
    run = Run(checkpoint=checkpoint, resume=True)
    resumed = train(model.tables(data), model.passes(data), settings(), run)
    assert resumed.values.tobytes() == undisturbed.values.tobytes()
