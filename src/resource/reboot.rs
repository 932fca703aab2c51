//! `reboot`: whether the host was booted since something changed, and with what.

use super::body::bare;
use super::support::{output, path_state, unit_state};
use super::{Action, Context, Field, Fields, Input, Judgement, Kind, Provision, Resource, Type};
use crate::diag::Diag;
use crate::model::Value;
use crate::probe::{Observation, PathState, Probe, Unknown};
use crate::script::Fragment;
use serde_json::json;

pub(super) const KIND: Kind = Kind {
    name: "reboot",
    summary: "Whether the host was booted since something changed, and runs the kernel that it should.",
    example: include_str!("examples/reboot.yaml"),
    doc: "\
It says for what a host has to be rebooted where no single step can tell by itself. Without fields it needs
`restart_on`.

**Compared** is what was booted with what is there now. A reboot is needed when

1. a file of a step in `restart_on` has a *ctime* later than the boot;
2. `kernel` is declared and another one runs;
3. something stands at `flag`.

Each of these is a question to the host, never the event of a change: a run that was killed before the reboot is
completed by the next one. The time of the boot is when systemd says that its own scope began. Nothing to do reads
`booted since then`.

**It changes nothing itself.** Where a reboot is needed the step is `pending`, as one that is `effective: { by: [reboot] }`:
all such steps of a host share one reboot, planned, printed and only made where `rollout.reboot` is `allow` (see
[rollout](../../rollout.md)). When a step in `restart_on` is going to change, it is planned as `pending` already.
What `needs` this step runs after the reboot.

**Disruption** is that of the reboot: D3.

What writes its file anew at each boot is no reason to reboot: it would be one for ever. After a reboot that did
not help the step stays `pending` and the run ends with 10.

**Removal** does nothing.",
    fields: &[
        Field::optional("kernel", Type::Line, "The release of the kernel that must run, as `uname -r` prints it."),
        Field::optional("flag", Type::Path, "A path at which something stands while a reboot is wanted: `/run/reboot-required`."),
    ],
    build,
};

/// The scope of systemd itself: it is active from the moment at which userspace began.
const INIT: &str = "init.scope";

#[derive(Debug)]
struct Reboot {
    kernel: Option<String>,
    flag: Option<String>,
    absent: bool,
}

fn build(fields: &Fields, absent: bool) -> Result<Box<dyn Resource>, Diag> {
    let text = |name: &str| fields.text(name).map(str::to_owned);
    Ok(Box::new(Reboot { kernel: text("kernel"), flag: text("flag"), absent }))
}

fn running() -> Probe {
    Probe::Check {
        id: "kernel that runs".to_owned(),
        script: "uname -r".to_owned(),
        user: None,
        cwd: None,
        env: Vec::new(),
        timeout_s: Some(10),
    }
}

fn init() -> Probe {
    Probe::Unit { name: INIT.to_owned() }
}

impl Reboot {
    /// Returns why the host must be rebooted: what is seen, and what is only going to be.
    fn reasons(&self, seen: &Observation, cx: &Context<'_>) -> Result<(Vec<String>, Vec<String>), Unknown> {
        let mut is = Vec::new();
        is.extend(self.other_kernel(seen)?);
        is.extend(self.flagged(seen)?);
        for input in cx.inputs {
            is.extend(newer(input, seen)?);
        }
        let coming = cx.inputs.iter().filter(|input| input.changing).map(|input| format!("`{}` changes", input.step));
        Ok((is, coming.collect()))
    }

    fn other_kernel(&self, seen: &Observation) -> Result<Option<String>, Unknown> {
        let Some(wanted) = &self.kernel else { return Ok(None) };
        let answer = output(seen, &running())?;
        let runs = answer.stdout.raw().trim();
        match (answer.status, runs) {
            (0, runs) if runs == wanted => Ok(None),
            (0, runs) if !runs.is_empty() => Ok(Some(format!("kernel {runs} runs, and {wanted} is declared"))),
            _ => Err(Unknown::new("`uname -r` did not say which kernel runs")),
        }
    }

    fn flagged(&self, seen: &Observation) -> Result<Option<String>, Unknown> {
        let Some(flag) = &self.flag else { return Ok(None) };
        match path_state(seen, &bare(flag))? {
            PathState::Present(_) => Ok(Some(format!("`{flag}` asks for one"))),
            PathState::Absent => Ok(None),
        }
    }
}

/// Returns the path of an input whose status changed after the boot.
fn newer(input: &Input, seen: &Observation) -> Result<Option<String>, Unknown> {
    for path in input.watched() {
        let PathState::Present(info) = path_state(seen, &bare(path))? else { continue };
        let booted = unit_state(seen, &init())?.active_since;
        if booted <= 0.0 {
            return Err(Unknown::new("systemd does not say when the host was booted"));
        }
        if info.ctime > booted {
            return Ok(Some(match input.is_trace(path) {
                true => format!("`{}` was applied after the boot", input.step),
                false => format!("`{path}` changed after the boot"),
            }));
        }
    }
    Ok(None)
}

impl Resource for Reboot {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn title(&self) -> String {
        match (&self.kernel, &self.flag) {
            (Some(kernel), _) => format!("into kernel {kernel}"),
            (None, Some(flag)) => format!("for {flag}"),
            (None, None) => "since the last change".to_owned(),
        }
    }

    fn probes(&self) -> Vec<Probe> {
        if self.absent {
            return Vec::new();
        }
        let kernel = self.kernel.as_ref().map(|_| running());
        [Some(init()), kernel, self.flag.as_deref().map(bare)].into_iter().flatten().collect()
    }

    fn judge(&self, seen: &Observation, cx: &Context<'_>) -> Judgement {
        if self.absent {
            return Judgement::ok("a reboot leaves nothing behind", Value::Null);
        }
        let pending = |why: &[String], seen: bool| {
            let reason = format!("needs a reboot: {}", why.join("; "));
            Judgement::pending(reason, json!({ "booted": !seen })).by_reboot()
        };
        match self.reasons(seen, cx) {
            Err(unknown) => Judgement::unknown(&unknown),
            Ok((is, _)) if !is.is_empty() => pending(&is, true),
            Ok((_, coming)) if !coming.is_empty() => pending(&coming, false).predicted(),
            Ok(_) => Judgement::ok("booted since then", json!({ "booted": true })),
        }
    }

    /// There is nothing to run: the window reboots the host.
    fn act(&self, _judgement: &Judgement, _cx: &Context<'_>) -> Action {
        Action { body: Fragment::new(), long: false, explain: &[] }
    }

    fn desired(&self) -> Value {
        json!({ "kernel": self.kernel, "flag": self.flag, "absent": self.absent })
    }

    fn provides(&self) -> Vec<Provision> {
        Vec::new()
    }

    /// Several recipes may have their reasons; the reboot is one.
    fn claims(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}
