"""Programs as they are in the repositories of people, with stand-ins in place of their trackers.

The real packages are asked by ``nox -s interop_frameworks``.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from command_line import toyspec
from toyspec.core.writing import open_runs
from toyspec.integrations import left_out, standing_in

if TYPE_CHECKING:
    from types import ModuleType

INIT: Final = 'wandb.init(project="p"); '
WANDB: Final[dict[str, list[Any]]] = {
    'wandb.init(project="p", entity="e", config={"lr": 1}); wandb.log({"a": 1.0})': [[0, {"a": 1.0}]],
    INIT + 'wandb.log({"a": 1.0}, commit=False); wandb.log({"b": 2.0}); assert wandb.run.step == 1': [
        [0, {"a": 1.0}],
        [0, {"b": 2.0}],
    ],
    INIT + 'wandb.log({"a": 0.5}); assert wandb.summary["a"] == 0.5; wandb.summary["best"] = 1': [
        [0, {"a": 0.5}],
        [None, {"summary/best": 1.0}],
    ],
    INIT + 'c = wandb.config; c.setdefaults({"q": 1}); c.lr = 2; assert c.as_dict() == {"q": 1, "lr": 2}': [
        {"q": 1},
        {"lr": 2},
    ],
    'wandb.init(id="a", resume="allow"); wandb.log({"a": 1.0}); wandb.finish(); wandb.init(id="a", resume="allow"); '
    "assert (wandb.run.resumed, wandb.run.step) == (True, 1)": [[0, {"a": 1.0}]],
    'wandb.init(mode="disabled"); wandb.run.name = "b"; wandb.run.tags = ["x"]; assert wandb.run.name == "b"': [],
    INIT + 'wandb.run.name = "better"; wandb.run.tags = (*wandb.run.tags, "x"); assert wandb.run.name == "better"': [],
    INIT
    + 'run = wandb.run; assert (run.project, run.resumed, run.url) == ("p", False, None) and run.dir and run.id': [],
    INIT
    + 'a = wandb.Artifact("m", type="model"); a.add_file("x"); wandb.run.log_artifact(a, aliases=["best"]).wait()': [
        ["Artifact.add_file"],
        ["log_artifact"],
    ],
    'wandb.init(settings=wandb.Settings(start_method="fork")); wandb.setup(); wandb.require("core")': [],
    INIT + 'wandb.log({"pr": wandb.plot.pr_curve([0], [[0.1, 0.9]]), "h": wandb.Html("<b>x</b>"), "a": 1.0})': [
        [0, {"a": 1.0}],
        ["h", "pr"],
    ],
    INIT + 'wandb.alert(title="x", text="y", level=wandb.AlertLevel.WARN, wait_duration=300)': ["alert: x: y"],
    INIT + 'wandb.watch(object(), log="all"); wandb.unwatch(); wandb.run.mark_preempting(); wandb.save("*.py")': [
        ["save"],
        ["watch"],
    ],
    'x = wandb.util.generate_id(); wandb.init(id=x, resume="allow"); assert wandb.run.id == x': [],
    'wandb.init(reinit=True); wandb.log({"a": 1.0}); assert wandb.init() is wandb.run': [[0, {"a": 1.0}]],
    INIT + 'wandb.define_metric("*", step_metric="global_step"); wandb.log({"a": 1, "global_step": 30})': [
        [30, {"a": 1.0, "global_step": 30.0}]
    ],
    INIT + 'wandb.log({"train": {"a": 1.0}, "b": True, "s": "text"})': [[0, {"b": 1.0, "train/a": 1.0}]],
    INIT
    + "assert isinstance(wandb.run, wandb.Run) and not isinstance(1, (wandb.Image, wandb.Molecule, wandb.Table))": [],
    # As GRPOTrainer of TRL logs completions, and as its callback does, whose table grows.
    INIT
    + 'columns = ["step", "prompt", "completion", "exact", "advantage"]; t = wandb.Table(columns, [["3", "p", "c", 1, '
    '0.5], ["3", "p", "d", float("nan"), None]]); wandb.log({"completions": t, "loss": 1.0})': [
        [3, "p", "c", {"exact": 1.0}, 0.5],
        [3, "p", "d", {"exact": None}, None],
        [0, {"loss": 1.0}],
    ],
    INIT
    + 'rows = [[1, "p", "c"]]; names = ["step", "prompt", "completion"]; wandb.log({"t": wandb.Table(names, rows)}); '
    'rows.append([2, "q", "d"]); wandb.log({"t": wandb.Table(names, rows)})': [
        [1, "p", "c", None, None],
        [2, "q", "d", None, None],
    ],
    INIT + 'wandb.log({"t": wandb.Table(["prompt", "completion", "by"], [["p", "c", "me"]])}, step=4)': [
        [4, "text/csv"]
    ],
    INIT + 't = wandb.Table(["a"]); t.add_data(1); t.add_column("b", [2]); assert t.get_column("b") == [2]; '
    "t.add_row(3, 4); t.set_pk('a'); assert [[0, [1, 2]], [1, [3, 4]]] == [list(each) for each in t.iterrows()]; "
    'wandb.Histogram([1.0]).bins; wandb.log({"t": t})': [[0, "text/csv"], ["Table.set_pk"]],
    INIT + 't = wandb.Table(["a"], [[1]]); t.add_column("b", [2, 3]); wandb.log({"t": t, "x": 1})': [
        [0, {"x": 1.0}],
        ["t"],
    ],
    "assert not hasattr(wandb, 'no_such_name') and not hasattr(wandb, 'summary') and wandb.run is None": [],
}
MLFLOW: Final[dict[str, list[Any]]] = {
    'mlflow.set_tracking_uri("http://localhost:5000"); mlflow.start_run(); mlflow.log_metrics({"a": 1.0}, 3)': [
        [3, {"a": 1.0}]
    ],
    'mlflow.autolog(); mlflow.start_run(); mlflow.log_artifact("x"); mlflow.pytorch.log_model(object(), "m")': [
        ["log_artifact"],
        ["pytorch.log_model"],
    ],
    'e = mlflow.set_experiment("x"); r = mlflow.start_run(experiment_id=e.experiment_id); mlflow.log_params({"a": 1}); '
    "assert mlflow.active_run().info.run_id == r.info.run_id": [{"a": 1}],
    'c = mlflow.MlflowClient(); r = c.create_run("0"); c.log_metric(r.info.run_id, "a", 1.0, step=2); '
    'c.log_batch(r.info.run_id, metrics=[mlflow.Metric("b", 2.0, 0, 3)], params=[mlflow.Param("lr", 1)]); '
    "c.set_terminated(r.info.run_id)": [[2, {"a": 1.0}], [3, {"b": 2.0}], {"lr": 1}],
    'with mlflow.start_run() as p:\n with mlflow.start_run(nested=True) as c: mlflow.log_metric("in", 1.0, 1)\n '
    'mlflow.log_metric("after", 2.0, 2); assert mlflow.active_run() is p and p.data.metrics == {"after": 2.0}\n'
    'mlflow.log_metrics({"late": 3.0}, 3, run_id=c.info.run_id); assert mlflow.active_run() is None\n'
    'with mlflow.start_run(run_id="own"): mlflow.MlflowClient().log_param("own", "lr", 1)': [
        [1, {"in": 1.0}],
        [2, {"after": 2.0}],
        [3, {"late": 3.0}],
        {"lr": 1},
    ],
    "@mlflow.trace\ndef f(): return 1\n\nassert f() == 1 and mlflow.utils.validation.MAX_PARAM_VAL_LENGTH > 5": [],
}


@pytest.mark.parametrize(
    ("tracker", "program"),
    [(name, each) for name, programs in (("wandb", WANDB), ("mlflow", MLFLOW)) for each in programs],
)
def test_programs_go_on_and_each_value_is_there_or_counted(
    tracker: str, program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the whole log beside them: values at their steps, settings, notes, and what was left out."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, f"toyspec.integrations.{tracker}", raising=False)
    exec(program, {tracker: importlib.import_module(f"toyspec.integrations.{tracker}")})
    open_runs._end_all()
    expected = (WANDB if tracker == "wandb" else MLFLOW)[program]
    found = [
        said
        for path in tmp_path.glob("runs/*/events.jsonl")
        for said in map(what, path.read_text().splitlines())
        if said
    ]
    assert sorted(expected, key=str) == sorted(found, key=str)


def what(line: str) -> Any:
    """Return the values, the sample, the setting or the note of a record; None for another one."""
    record = json.loads(line)
    match record["kind"]:
        case "scalars":
            return [record.get("step"), record["values"]]
        case "sample":
            return [record[name] for name in ("step", "prompt", "text")] + [*map(record.get, ("rewards", "advantage"))]
        case "media":
            return [record["step"], record["media_type"]]
        case "run_config":
            return record["config"]
        case "note":
            return list(record["left_out"]) if "left_out" in record else record["text"]
    return None


@pytest.mark.parametrize(
    ("call", "advice"),
    [
        ("wandb.Api()", "list_runs"),
        ("wandb.agent('x', function=print)", "once for each"),
        ("mlflow.search_runs()", "list_runs"),
    ],
)
def test_what_must_return_data_says_what_to_do_instead(call: str, advice: str) -> None:
    """By an exception that the tracker's own is not, so that no program takes it for a server that is away."""
    tracker = call.partition(".")[0]
    with pytest.raises(left_out.Error, match=advice):
        eval(call, {tracker: importlib.import_module(f"toyspec.integrations.{tracker}")})


PROGRAM: Final = """
import importlib.metadata, importlib.util, os, sys
assert importlib.util.find_spec("wandb") and importlib.metadata.version("wandb")
import wandb
from wandb.sdk.lib import RunDisabled
from wandb.sdk.wandb_run import Run
from wandb.errors import CommError
from tensorboardX import SummaryWriter
run = wandb.init(project="p")
assert isinstance(run, Run) and not isinstance(run, RunDisabled) and issubclass(CommError, Exception)
wandb.log({"loss": 2.5}, step=7)
with SummaryWriter("tb") as writer:
    writer.add_scalar("acc", 0.5, 3)
    writer.add_graph(None)
    writer._get_file_writer().flush()
import mlflow.pytorch
mlflow.start_run()
mlflow.pytorch.log_model(None, "m")
assert os.environ["BESIDE"] == "yes", "the sitecustomize of this machine is imported too"
sys.exit(3)
"""


def test_a_program_that_does_not_change_has_the_stand_ins(tmp_path: Path) -> None:
    """Its packages, their parts and their versions are there, its exit status is kept, and each run is named."""
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside" / "sitecustomize.py").write_text("import os\nos.environ['BESIDE'] = 'yes'\n")
    (tmp_path / "train.py").write_text(PROGRAM)
    path = os.pathsep.join(filter(None, ["beside", os.environ.get("PYTHONPATH", "")]))
    done = toyspec("run", "--root", "all", "--", sys.executable, "train.py", cwd=tmp_path, env={"PYTHONPATH": path})
    assert 3 == done.returncode, done.stderr
    assert 2 == done.stderr.count(b"toyspec: run: all/")
    logs = "".join(path.read_text() for path in tmp_path.glob("*/*/events.jsonl"))
    for said in ('"step":7,"values":{"loss":2.5}', '"step":3,"values":{"acc":0.5}', "pytorch.log_model", "add_graph"):
        assert said in logs


def test_only_the_trackers_that_are_named_are_replaced(tmp_path: Path) -> None:
    """And a tracker that is switched off by its variable writes nothing, and says nothing."""
    program = (
        "import wandb; wandb.init(); wandb.log({'a': 1.0}); import importlib.util as u; print(u.find_spec('mlflow'))"
    )
    done = toyspec(
        "run", "--as", "wandb", "--", sys.executable, "-c", program, cwd=tmp_path, env={"WANDB_MODE": "disabled"}
    )
    assert (0, str(find_spec("mlflow"))) == (done.returncode, done.stdout.decode().strip())
    assert done.stderr.startswith(b"toyspec: run: no run was written below runs; ")


@pytest.mark.parametrize("tracker", ["wandb", "mlflow"])
def test_the_public_names_are_those_of_the_real_package(tracker: str) -> None:
    """Where it is installed."""
    real = pytest.importorskip(tracker)
    if standing_in.VERSIONS[tracker] != real.__version__:
        pytest.skip(f"the names are those of {standing_in.VERSIONS[tracker]}, {real.__version__} is installed")
    module: ModuleType = importlib.import_module(f"toyspec.integrations.{tracker}")
    names = [name for name in dir(real) if not name.startswith("_") and name != tracker]
    assert [] == [name for name in names if not hasattr(module, name) and name not in NOT_STARTED | MODULES]


NOT_STARTED: Final = {"alert", "config", "define_metric", "summary"}
MODULES: Final = {"annotations", "TYPE_CHECKING", "contextlib", "LazyLoader"}
"""What the packages import, which is not theirs."""
