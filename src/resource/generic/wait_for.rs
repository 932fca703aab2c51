//! `wait_for`: waits for a condition that the run itself does not cause.

use crate::diag::{Diag, DiagCode};
use crate::model::{DisruptionClass, SecretStore, UndoEffect, Value};
use crate::probe::{CheckProbe, Observation, PathState, Probe, ProbeOutput, UnansweredReason};
use crate::resource::shared::file_target::path_probe;
use crate::resource::shared::shell;
use crate::resource::shared::support::{
    bad_value, check_script_text, join_quoted, output, path_state, unit_name, unit_state,
};
use crate::resource::traits::{KindTraits, PackageExposure};
use crate::resource::{
    Action, ActionScript, Assessment, AssessmentContext, AttributeChange, DeclaredResource, FieldSpec, FieldType,
    FieldValues, ProvidedItem, Resource, ResourceDiff, ResourceKind, TypedResource,
};
use crate::script::ShellFragment;
use serde::Serialize;
use serde_json::json;

pub(in crate::resource) const KIND: ResourceKind = ResourceKind {
    name: "wait_for",
    summary: "Waits until a port, a path, a unit or a command is ready.",
    example: include_str!("../examples/wait_for.yaml"),
    doc: "\
The step changes nothing: later steps continue once the condition is met. Exactly one of `port`, `path`, `unit` and
`command` declares the condition.

**Compared** is whether the condition is met now. An unchanged step reports it: `port 5432 of 127.0.0.1 is open`.

**A change** is the wait itself. A plan shows it as `wait`, with disruption D0. It checks every `interval` and fails
after `timeout` with the last observation. It runs on the host and continues if the connection is lost.

If an earlier step of the recipe, or of one that it needs, is about to change, the wait is planned as `change
(predicted)` even if the condition is met now, because the service may be restarted by then. If the condition is met
when the step runs, the wait is skipped.

`command` runs in every plan, so it must be read-only; each run has a timeout of ten seconds. Exit status 0 means ready.
A port is checked with `bash`, which must be installed on the host. Check a URL with a command:
`curl --fail --silent --output /dev/null http://127.0.0.1:8080/health`.

**Removal** does nothing.",
    fields: FIELDS,
    build,
    traits: KindTraits { only_waits: true, exposure: PackageExposure::Unknown, ..KindTraits::DEFAULT },
};

const FIELDS: &[FieldSpec] = &[
    FieldSpec::optional("port", FieldType::Int { min: 1, max: 65_535 }, "A TCP port that must accept a connection."),
    FieldSpec::optional("host", FieldType::Line, "Address to which the host connects for `port`. Default `127.0.0.1`."),
    FieldSpec::optional("path", FieldType::Path, "A path that must exist."),
    FieldSpec::optional("unit", FieldType::Name, "A unit that must be active; the default type is `.service`."),
    FieldSpec::optional("command", FieldType::Text, "A read-only shell command that must exit 0."),
    FieldSpec::optional("timeout", FieldType::Duration, "Maximum time to wait. Default `5m`."),
    FieldSpec::optional("interval", FieldType::Duration, "Pause between two checks. Default `2s`."),
];

/// Default timeout and interval in seconds.
const TIMEOUT: i64 = 300;
const INTERVAL: i64 = 2;
/// Timeout of one check in seconds.
const CHECK_LIMIT_S: u64 = 10;
/// Maximum script length in bytes. Linux limits one argument to 128 KiB; the rest is for revealed secrets.
const SCRIPT_CAP: usize = 98_304;

#[derive(Debug)]
struct WaitForResource {
    what: WaitCondition,
    timeout: u64,
    interval: u64,
    absent: bool,
}

#[derive(Debug)]
enum WaitCondition {
    Port { host: String, port: u64 },
    Path(String),
    Unit(String),
    Command(String),
}

fn build(fields: &FieldValues, absent: bool) -> Result<Box<dyn Resource>, Diag> {
    const WHATS: [&str; 4] = ["port", "path", "unit", "command"];
    let given: Vec<&str> = WHATS.into_iter().filter(|name| fields.contains(name)).collect();
    let what = match given.as_slice() {
        [] => {
            return Err(Diag::error(
                DiagCode::MissingKey,
                format!("exactly one of {} is required", join_quoted(&WHATS)),
            ));
        }
        [_] => parse_condition(fields)?,
        more => return Err(Diag::error(DiagCode::Exclusive, format!("{} exclude each other", join_quoted(more)))),
    };
    if fields.contains("host") && !fields.contains("port") {
        return Err(bad_value("`host` requires `port`").with_field("host"));
    }
    let seconds = |name: &str, default: i64| fields.get_int(name).unwrap_or(default).unsigned_abs();
    let (timeout, interval) = (seconds("timeout", TIMEOUT), seconds("interval", INTERVAL).max(1));
    if timeout == 0 {
        return Err(bad_value("`timeout` must be greater than zero").with_field("timeout"));
    }
    Ok(Box::new(WaitForResource { what, timeout, interval, absent }))
}

fn parse_condition(fields: &FieldValues) -> Result<WaitCondition, Diag> {
    let host = fields.get_text("host").unwrap_or("127.0.0.1");
    if host.is_empty() || host.contains(['/', ' ']) {
        return Err(bad_value(format!("`{host}` is not a valid host"))
            .with_field("host")
            .hint("use an address or a name; declare the port in `port`"));
    }
    let port =
        fields.get_int("port").map(|port| WaitCondition::Port { host: host.to_owned(), port: port.unsigned_abs() });
    let path = || fields.get_text("path").map(|path| WaitCondition::Path(path.to_owned()));
    let unit = || fields.get_text("unit").map(|unit| WaitCondition::Unit(unit_name(unit)));
    if let Some(what) = port.or_else(path).or_else(unit) {
        return Ok(what);
    }
    let command = fields.get_text("command").unwrap_or_default();
    check_script_text("command", command)?;
    match command.len() <= SCRIPT_CAP {
        false => Err(bad_value(format!("`command` is longer than {SCRIPT_CAP} bytes")).with_field("command")),
        true => Ok(WaitCondition::Command(command.to_owned())),
    }
}

/// Whether the condition is met, and what was observed.
struct WaitObservation {
    holds: bool,
    what: String,
}

impl WaitCondition {
    fn probe(&self) -> Probe {
        match self {
            Self::Path(path) => path_probe(path),
            Self::Unit(name) => Probe::Unit { name: name.clone() },
            Self::Command(script) => check_probe("command of a wait", script, Vec::new()),
            Self::Port { host, port } => check_probe(
                &format!("port {port} of {host}"),
                PORT,
                vec![("wait_host".to_owned(), host.clone()), ("wait_port".to_owned(), port.to_string())],
            ),
        }
    }

    fn describe(&self) -> String {
        match self {
            Self::Port { host, port } => format!("port {port} of {host}"),
            Self::Path(path) => path.clone(),
            Self::Unit(name) => name.clone(),
            Self::Command(script) => first_line(script),
        }
    }

    fn evaluate(&self, seen: &Observation) -> Result<WaitObservation, UnansweredReason> {
        let probe = self.probe();
        let found = |holds: bool, what: String| Ok(WaitObservation { holds, what });
        match self {
            Self::Path(path) => match path_state(seen, &probe)? {
                PathState::Present(_) => found(true, format!("`{path}` exists")),
                PathState::Absent => found(false, format!("`{path}` does not exist")),
            },
            Self::Unit(name) => {
                let unit = unit_state(seen, &probe)?;
                match (unit.load.as_str(), unit.active.as_str()) {
                    ("not-found", _) => found(false, format!("unit `{name}` does not exist")),
                    (_, "active") => found(true, format!("`{name}` is active")),
                    (_, state) => found(false, format!("`{name}` is {state}")),
                }
            }
            Self::Port { .. } => interpret_port_check(output(seen, &probe)?, &self.describe()),
            Self::Command(_) => match output(seen, &probe)?.status {
                0 => found(true, "the command exited with 0".to_owned()),
                status => found(false, format!("the command exited with {status}")),
            },
        }
    }
}

/// Parses the message of bash, `connect: Connection refused`; status 124 is the timeout of one attempt.
fn interpret_port_check(output: &ProbeOutput, words: &str) -> Result<WaitObservation, UnansweredReason> {
    let said = output.stderr.raw().lines().find_map(|line| line.rsplit_once(": ")).map(|(_, why)| why.to_lowercase());
    let what = match output.status {
        0 => format!("{words} is open"),
        124 => format!("{words} does not answer"),
        1 => format!("{words} is not open: {}", said.unwrap_or_else(|| "not reachable".to_owned())),
        127 => return Err(UnansweredReason::new("`bash` is required to check the port and is not installed")),
        status => return Err(UnansweredReason::new(format!("the port check exited with {status}"))),
    };
    Ok(WaitObservation { holds: output.status == 0, what })
}

fn check_probe(id: &str, script: &str, env: Vec<(String, String)>) -> Probe {
    Probe::Check(Box::new(CheckProbe {
        id: id.to_owned(),
        script: script.to_owned(),
        user: None,
        cwd: None,
        env,
        timeout_s: Some(CHECK_LIMIT_S),
    }))
}

fn first_line(script: &str) -> String {
    SecretStore::mask_placeholders(script)
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty())
        .unwrap_or("command")
        .to_owned()
}

/// Tries to connect once. Host and port are passed in the environment and are never evaluated as code.
const PORT: &str = r#"command -v bash >/dev/null || exit 127
timeout 3 bash -c 'exec 3<>"/dev/tcp/$wait_host/$wait_port"'"#;

/// Reads `$limit` and `$pause`; `look` checks once and prints the observation to stdout. The time since boot goes on when
/// the clock of the host is set.
const WAIT: &str = r#"
uptime() { read -r now _ </proc/uptime; now=${now%%.*}; }
uptime; began=$now
while :; do
  if last=$(look); then exit 0; fi
  uptime; waited=$((now - began))
  if [ "$waited" -ge "$limit" ]; then fail "gave up after $waited s: $last"; fi
  left=$((limit - waited))
  sleep "$((pause < left ? pause : left))"
done
"#;

impl WaitForResource {
    fn render_script(&self) -> ShellFragment {
        let opened = shell::open_action().number(self.timeout).number(self.interval);
        let action = match &self.what {
            WaitCondition::Path(path) => opened.word(path).code(PATH_LOOK),
            WaitCondition::Unit(name) => opened.word(name).code(UNIT_LOOK),
            WaitCondition::Port { host, port } => {
                opened.word(host).number(*port).word(self.what.describe()).code(PORT_LOOK)
            }
            WaitCondition::Command(script) => opened.word(script).number(CHECK_LIMIT_S).code(COMMAND_LOOK),
        };
        shell::close_action(action.code(WAIT))
    }

    fn assess_observed(&self, found: WaitObservation, cx: &AssessmentContext<'_>) -> Assessment<WaitDiff> {
        let after = cx.predicted.and_then(|p| p.after.as_deref());
        // The observation differs from check to check, so it is not part of the basis.
        let basis = json!({ "holds": found.holds });
        match (found.holds, after) {
            (true, None) => Assessment::ok(found.what, basis),
            (true, Some(step)) => {
                let reason = format!("{}; checked again after `{step}`", found.what);
                self.wait_assessment(reason, Some(found.what), basis).mark_matching_now()
            }
            (false, None) => self.wait_assessment(found.what.clone(), Some(found.what), basis),
            (false, Some(_)) => self.wait_assessment(found.what.clone(), Some(found.what), basis).mark_predicted(),
        }
    }

    fn assess_unknown(&self, unknown: &UnansweredReason, cx: &AssessmentContext<'_>) -> Assessment<WaitDiff> {
        let Some(step) = cx.predicted.and_then(|p| p.after.as_deref()) else { return Assessment::unknown(unknown) };
        let reason = format!("cannot be checked before `{step}` runs: {}", unknown.why);
        self.wait_assessment(reason, None, json!({ "holds": null })).mark_predicted()
    }

    fn wait_assessment(&self, reason: String, observed: Option<String>, basis: Value) -> Assessment<WaitDiff> {
        let diff = WaitDiff { observed, limit_s: self.timeout };
        Assessment::differs(reason, diff, DisruptionClass::D0, basis)
    }
}

/// A condition to wait for.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct WaitDiff {
    /// The last observation; `None` if the condition cannot be checked yet.
    observed: Option<String>,
    /// Maximum time to wait in seconds.
    limit_s: u64,
}

impl ResourceDiff for WaitDiff {
    fn render_changes(&self) -> Vec<AttributeChange> {
        let from = self.observed.as_deref().unwrap_or("not known yet");
        vec![AttributeChange::new("wait", Some(from), Some(&format!("ready, within {} s", self.limit_s)))]
    }
}

const PATH_LOOK: &str = r#"
limit=$1 pause=$2 what=$3
look() {
  if [ -e "$what" ] || [ -L "$what" ]; then return 0; fi
  echo "$what does not exist"
  return 1
}
"#;

const UNIT_LOOK: &str = r#"
limit=$1 pause=$2 what=$3
look() {
  state=$(systemctl show --value -p ActiveState -- "$what")
  if [ "$state" = active ]; then return 0; fi
  echo "$what is ${state:-not known}"
  return 1
}
"#;

const PORT_LOOK: &str = r#"
limit=$1 pause=$2 wait_host=$3 wait_port=$4 what=$5
export wait_host wait_port
command -v bash >/dev/null || fail "bash is missing, which tries the port"
look() {
  said=$(timeout 3 bash -c 'exec 3<>"/dev/tcp/$wait_host/$wait_port"' 2>&1) && return 0
  if [ "$?" -eq 124 ]; then echo "$what does not answer"; return 1; fi
  said=${said%%
*}
  echo "$what is not open: ${said##*: }"
  return 1
}
"#;

/// The command is passed in the environment: arguments are visible to every user on the host.
const COMMAND_LOOK: &str = r#"
limit=$1 pause=$2 one=$4
export FORGE_RUN="$3"
cd /
look() {
  said=$(timeout -k 2 "$one" sh -c 'c=$FORGE_RUN; unset FORGE_RUN; eval "$c"' 2>&1 </dev/null)
  status=$?
  if [ "$status" -eq 0 ]; then return 0; fi
  said=$(printf %s "$said" | tail -n 1)
  echo "the command exited with $status${said:+: $said}"
  return 1
}
"#;

const EXPLAIN: &[(&str, &str)] = &[("gave up after", "increase `timeout`, or check why the condition is not met")];

impl DeclaredResource for WaitForResource {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn title(&self) -> String {
        self.what.describe()
    }

    fn probes(&self) -> Vec<Probe> {
        if self.absent { Vec::new() } else { vec![self.what.probe()] }
    }

    fn desired_value(&self) -> Value {
        let what = match &self.what {
            WaitCondition::Port { host, port } => json!({ "host": host, "port": port }),
            WaitCondition::Path(path) => json!({ "path": path }),
            WaitCondition::Unit(name) => json!({ "unit": name }),
            WaitCondition::Command(script) => json!({ "command": script }),
        };
        json!({ "wait_for": what, "absent": self.absent })
    }

    /// The path or unit exists after the wait.
    fn provided_items(&self) -> Vec<ProvidedItem> {
        match &self.what {
            WaitCondition::Path(path) if !self.absent => vec![ProvidedItem::Path(path.clone())],
            WaitCondition::Unit(name) if !self.absent => vec![ProvidedItem::Unit(name.clone())],
            _ => Vec::new(),
        }
    }

    /// Claims nothing: several steps may wait for the same condition.
    fn exclusive_claims(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

impl TypedResource for WaitForResource {
    type Diff = WaitDiff;

    fn diff(&self, seen: &Observation, cx: &AssessmentContext<'_>) -> Assessment<WaitDiff> {
        if self.absent {
            return Assessment::ok("nothing to remove", Value::Null);
        }
        match self.what.evaluate(seen) {
            Ok(found) => self.assess_observed(found, cx),
            Err(unknown) => self.assess_unknown(&unknown, cx),
        }
    }

    fn act(&self, _diff: &WaitDiff, _cx: &AssessmentContext<'_>) -> Action {
        Action::Script(ActionScript { body: self.render_script(), long: true, explain: EXPLAIN })
    }

    fn undo(&self, _diff: &WaitDiff) -> UndoEffect {
        UndoEffect::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build_error(fields: &[(&'static str, Value)]) -> String {
        build(&FieldValues(fields.iter().cloned().collect()), false).unwrap_err().message
    }

    #[test]
    fn exactly_one_wait_condition_is_required() {
        assert_eq!(build_error(&[]), "exactly one of `port`, `path`, `unit` and `command` is required");
        assert_eq!(build_error(&[("port", json!(1)), ("path", json!("/a"))]), "`port` and `path` exclude each other");
        assert_eq!(build_error(&[("path", json!("/a")), ("host", json!("a"))]), "`host` requires `port`");
        assert_eq!(
            build_error(&[("command", json!(" "))]),
            "`command` is empty or only a comment, so it would always pass"
        );
        assert_eq!(build_error(&[("port", json!(1)), ("host", json!("a/b"))]), "`a/b` is not a valid host");
        let none = [("path", json!("/a")), ("timeout", json!(0))];
        assert_eq!(build_error(&none), "`timeout` must be greater than zero");
    }
}
