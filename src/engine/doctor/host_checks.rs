//! Evaluates a host's answers for readiness: pure, from one round trip.

use super::finding::{DoctorFinding, DoctorSeverity};
use crate::model::{UntrustedText, Value};
use crate::plan::{HostHold, HostRefusal, ObservedHost, RELEASE_HINT};
use crate::probe::{
    CheckProbe, Observation, PackageManagerState, Probe, ProbeOutput, ProbeReading, ScriptAccount, UnansweredReason,
};
use std::collections::BTreeSet;

/// Prints one line per answer with tab-separated fields; writes nothing. The lock holder is the process named in the
/// lock file, confirmed by its token. Trying the lock would mean taking it for a moment, in which a run would fail to
/// get it, and `/proc/locks` does not show the holder in a container.
const DOCTOR_SCRIPT: &str = r#"printf 'now\t%s\n' "$(date +%s)"
u=${SUDO_USER:-$(id -un)}
printf 'login\t%s\t%s\n' "$u" "$(getent passwd -- "$u" 2>/dev/null | cut -d: -f7)"
for t in base64 cat chmod chown cut date df find flock getent grep head id mktemp mv od readlink rm sed sha256sum \
  sort stat sync tail timeout tr; do
command -v "$t" >/dev/null 2>&1 || printf 'lacks\t%s\n' "$t"
done
for d in / /boot /etc /run /tmp /usr /var /var/lib /var/lib/forge; do
[ -d "$d" ] || continue
[ -w "$d" ] || printf 'readonly\t%s\n' "$d"
stat -f -c "room	$d	%a	%S	%d	%c" -- "$d"
done
f=/run/lock/forge
if [ -e "$f" ] || [ -L "$f" ]; then
printf 'lockfile\t%s\n' "$(stat -c '%F by %U' -- "$f")"
t= p=
[ -r "$f" ] && { read -r t; read -r p; } <"$f"
[ -n "$p" ] && tr '\000' ' ' <"/proc/$p/cmdline" 2>/dev/null | grep -qF -- "$t" &&
printf 'locked\t%s\n' "$(sed 1,2d "$f" | tr '\n\t' '; ')"
fi
printf 'end\n'"#;

/// Timeout of the script in seconds.
const SCRIPT_LIMIT_S: u64 = 20;
/// Clock skew in seconds that is not reported, and skew that does not yet break certificates, tokens and logs.
const HARMLESS_SKEW_S: i64 = 2;
const HARMFUL_SKEW_S: i64 = 60;
/// Free bytes below which nothing can be done, and below which an update soon fails.
const NO_SPACE_BYTES: u64 = 10 << 20;
const LOW_SPACE_BYTES: u64 = 200 << 20;

fn build_doctor_probe() -> Probe {
    Probe::Check(Box::new(CheckProbe {
        id: "doctor".to_owned(),
        script: DOCTOR_SCRIPT.to_owned(),
        user: None,
        cwd: None,
        env: Vec::new(),
        timeout_s: Some(SCRIPT_LIMIT_S),
    }))
}

/// Facts with their own evaluation.
const DOCTOR_FACTS: [&str; 4] = ["os", "tools", "packages", "time"];

/// Returns the probes sent to a host in one round trip; `read` are the facts that the project reads.
pub fn list_doctor_probes(read: &BTreeSet<String>) -> BTreeSet<Probe> {
    let of_hosts = read.iter().map(String::as_str).filter(|name| !crate::facts::is_cluster_fact(name));
    let facts = DOCTOR_FACTS.into_iter().chain(of_hosts);
    let facts = facts.map(|name| Probe::Fact { name: name.to_owned() });
    facts.chain([build_doctor_probe(), Probe::Account, Probe::PackageManager, Probe::Records]).collect()
}

/// Returns the findings from the answers.
pub fn check_host(seen: &ObservedHost) -> Vec<DoctorFinding> {
    let mut found = vec![check_account(&seen.observation)];
    match seen.observation.get(&build_doctor_probe()) {
        Ok(ProbeReading::Output(output)) if output.stdout.raw().ends_with("end\n") => {
            found.extend(check_script_output(seen, output))
        }
        Ok(ProbeReading::Output(output)) => {
            let why = UnansweredReason::new("the host's answer is truncated").with_message(output.stderr.clone());
            found.push(report_unknown("host", &why));
        }
        Ok(_) => found.push(report_unknown("host", &UnansweredReason::new("unexpected type of answer from the host"))),
        Err(why) => found.push(report_unknown("host", &why)),
    }
    found.extend(seen.hold.as_ref().map(report_hold));
    found.push(check_leftover_units(&seen.observation));
    found.extend(check_packages(seen));
    found.extend(check_system(seen));
    found.extend(report_unknown_facts(seen));
    found
}

fn report_hold(hold: &HostHold) -> DoctorFinding {
    let what = format!("{}; apply leaves this host alone", hold.describe());
    DoctorFinding::new(DoctorSeverity::Note, "hold", what).with_hint(RELEASE_HINT)
}

fn report_unknown(check: &'static str, why: &UnansweredReason) -> DoctorFinding {
    let what = match why.said.as_ref().filter(|said| !said.is_empty()) {
        Some(said) => format!("could not be evaluated: {}: {}", why.why, said.raw().trim()),
        None => format!("could not be evaluated: {}", why.why),
    };
    DoctorFinding::new(DoctorSeverity::Unknown, check, what)
}

fn check_account(observation: &Observation) -> DoctorFinding {
    match observation.get(&Probe::Account) {
        Ok(ProbeReading::Account(ScriptAccount::Root | ScriptAccount::Isolated)) => {
            DoctorFinding::new(DoctorSeverity::Ok, "root", "runs as root")
        }
        Ok(ProbeReading::Account(ScriptAccount::Other(name))) => {
            let HostRefusal { why, hint } = HostRefusal::not_root(name.raw());
            DoctorFinding::new(DoctorSeverity::Problem, "root", why).with_hint(hint)
        }
        Ok(_) => report_unknown("root", &UnansweredReason::new("unexpected type of answer from the host")),
        Err(why) => report_unknown("root", &why),
    }
}

/// Returns the lines of the script's answer that begin with `key`, without the key.
fn find_rows<'a>(output: &'a ProbeOutput, key: &'a str) -> impl Iterator<Item = &'a str> {
    output.stdout.raw().lines().filter_map(move |line| line.strip_prefix(key)?.strip_prefix('\t'))
}

fn check_script_output(seen: &ObservedHost, output: &ProbeOutput) -> Vec<DoctorFinding> {
    let mut found = Vec::new();
    found.extend(report_login(output));
    found.push(check_tools(output));
    let account = seen.observation.get(&Probe::Account);
    let is_root = matches!(account, Ok(ProbeReading::Account(ScriptAccount::Root | ScriptAccount::Isolated)));
    found.extend(check_filesystems(output, is_root));
    found.push(check_clock(seen, output));
    found.push(check_host_lock(output));
    found
}

fn report_login(output: &ProbeOutput) -> Option<DoctorFinding> {
    let (user, shell) = find_rows(output, "login").next()?.split_once('\t')?;
    let shell = if shell.is_empty() { String::new() } else { format!(" (shell `{shell}`)") };
    Some(DoctorFinding::new(DoctorSeverity::Ok, "login", format!("logs in as `{user}`{shell}")))
}

fn check_tools(output: &ProbeOutput) -> DoctorFinding {
    let lacks: Vec<&str> = find_rows(output, "lacks").collect();
    match lacks.is_empty() {
        true => DoctorFinding::new(DoctorSeverity::Ok, "tools", "all programs required by forge are installed"),
        false => DoctorFinding::new(DoctorSeverity::Problem, "tools", format!("missing: {}", join_quoted(&lacks)))
            .with_hint(
                "install the packages that contain them: coreutils, util-linux, findutils, grep, sed or libc-bin",
            ),
    }
}

fn join_quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// A filesystem with the folders on it.
struct DoctorFilesystem<'a> {
    numbers: &'a str,
    paths: Vec<&'a str>,
}

/// `is_root`: another account can write nowhere, which the `root` check reports.
fn check_filesystems(output: &ProbeOutput, is_root: bool) -> Vec<DoctorFinding> {
    let mut filesystems: Vec<DoctorFilesystem<'_>> = Vec::new();
    for (path, numbers) in find_rows(output, "room").filter_map(|row| row.split_once('\t')) {
        match filesystems.iter_mut().find(|room| room.numbers == numbers) {
            Some(room) => room.paths.push(path),
            None => filesystems.push(DoctorFilesystem { numbers, paths: vec![path] }),
        }
    }
    let mut found: Vec<DoctorFinding> = filesystems.iter().filter_map(check_filesystem_space).collect();
    let readonly: Vec<&str> = find_rows(output, "readonly").collect();
    if is_root && !readonly.is_empty() {
        let what = format!("not writable: {}", join_quoted(&readonly));
        found.push(DoctorFinding::new(DoctorSeverity::Problem, "room", what).with_hint(
            "check the mount options with `findmnt -T DIR`; after I/O errors, the kernel mounts a file system read-only",
        ));
    }
    if found.is_empty() {
        found.push(DoctorFinding::new(DoctorSeverity::Ok, "room", "all filesystems have enough free space"));
    }
    found
}

/// A filesystem without inodes reports a total of 0.
fn check_filesystem_space(room: &DoctorFilesystem<'_>) -> Option<DoctorFinding> {
    let numbers: Vec<u64> = room.numbers.split('\t').filter_map(|number| number.parse().ok()).collect();
    let [blocks, size, inodes, all_inodes] = numbers[..] else { return None };
    let free = blocks.saturating_mul(size);
    let paths = join_quoted(&room.paths);
    let problem = |what: String| DoctorFinding::new(DoctorSeverity::Problem, "room", what);
    // Small by design is not low: `/run` is sized by the machine's memory.
    let small = room.paths == ["/run"];
    match free {
        _ if all_inodes > 0 && inodes == 0 => {
            Some(problem(format!("no free inodes in {paths}")).with_hint("delete files there"))
        }
        0..NO_SPACE_BYTES => {
            Some(problem(format!("no space in {paths}: {} free", format_mebibytes(free))).with_hint("free up space"))
        }
        NO_SPACE_BYTES..LOW_SPACE_BYTES if !small => Some(
            DoctorFinding::new(
                DoctorSeverity::Note,
                "room",
                format!("low disk space in {paths}: {} free", format_mebibytes(free)),
            )
            .with_hint("packages and images need more; free up space"),
        ),
        _ => None,
    }
}

/// Whole MiB, so that hosts with small differences show the same text.
fn format_mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

fn check_clock(seen: &ObservedHost, output: &ProbeOutput) -> DoctorFinding {
    let now = find_rows(output, "now").next().and_then(|now| now.parse::<i64>().ok());
    let (Some(now), Some((began, ended))) = (now, seen.observation.time_range()) else {
        return report_unknown("clock", &UnansweredReason::new("the host's answer does not contain its time"));
    };
    assess_clock_skew(now, began.as_second(), ended.as_second())
}

/// Compares the host's `now` with the local time before the request and after the answer.
pub(super) fn assess_clock_skew(now: i64, began: i64, ended: i64) -> DoctorFinding {
    let (off, side) = match now {
        now if now < began => (began - now, "behind"),
        now if now > ended => (now - ended, "ahead of"),
        _ => (0, ""),
    };
    let weight = match off {
        0..=HARMLESS_SKEW_S => return DoctorFinding::new(DoctorSeverity::Ok, "clock", "in sync with this machine"),
        _ if off <= HARMFUL_SKEW_S => DoctorSeverity::Note,
        _ => DoctorSeverity::Problem,
    };
    DoctorFinding::new(weight, "clock", format!("{} {side} this machine", format_rough_time(off)))
        .with_hint("run a time service (chrony or systemd-timesyncd) on the host or on this machine")
}

/// Rough, so that hosts with the same problem show the same text.
fn format_rough_time(seconds: i64) -> String {
    match seconds {
        ..=60 => "up to a minute".to_owned(),
        61..=3600 => format!("about {} min", (seconds + 30) / 60),
        _ => format!("about {} h", (seconds + 1800) / 3600),
    }
}

fn check_host_lock(output: &ProbeOutput) -> DoctorFinding {
    const REMOVE: &str = "`rm -f /run/lock/forge /run/lock/forge.act`";
    let file = find_rows(output, "lockfile").next();
    match (find_rows(output, "locked").next(), file) {
        (Some(owner), _) => DoctorFinding::new(
            DoctorSeverity::Note,
            "lock",
            format!("locked: {}", owner.trim().trim_end_matches(';').replace(';', "; ")),
        )
        .with_hint("another run is active there; it releases the lock when it ends"),
        (None, Some(file)) if !(file.starts_with("regular") && file.ends_with(" by root")) => DoctorFinding::new(
            DoctorSeverity::Problem,
            "lock",
            format!("`/run/lock/forge` is not a root-owned file: {file}"),
        )
        .with_hint(format!("if no forge run is active there, remove it as root: {REMOVE}")),
        _ => DoctorFinding::new(DoctorSeverity::Ok, "lock", "free"),
    }
}

fn check_leftover_units(observation: &Observation) -> DoctorFinding {
    match observation.get(&Probe::Records) {
        Ok(ProbeReading::Records(state)) if state.running.is_empty() => {
            DoctorFinding::new(DoctorSeverity::Ok, "leftovers", "no jobs left running by an earlier run")
        }
        Ok(ProbeReading::Records(state)) => {
            let units: Vec<&str> = state.running.iter().map(|(unit, _)| unit.as_str()).collect();
            DoctorFinding::new(
                DoctorSeverity::Note,
                "leftovers",
                format!("still running from an earlier run: {}", join_quoted(&units)),
            )
            .with_hint("the next `forge apply` waits until they finish")
        }
        Ok(_) => report_unknown("leftovers", &UnansweredReason::new("unexpected type of answer from the host")),
        Err(why) => report_unknown("leftovers", &why),
    }
}

fn package_manager_name(seen: &ObservedHost) -> Option<&str> {
    get_fact_field(seen, "packages", "manager")?.as_str()
}

fn check_packages(seen: &ObservedHost) -> Vec<DoctorFinding> {
    if package_manager_name(seen) != Some("apt") {
        return Vec::new();
    }
    match seen.observation.get(&Probe::PackageManager) {
        Ok(ProbeReading::PackageManager(state)) => check_package_manager(state),
        Ok(_) => vec![report_unknown("packages", &UnansweredReason::new("unexpected type of answer from the host"))],
        Err(why) => vec![report_unknown("packages", &why)],
    }
}

fn check_package_manager(state: &PackageManagerState) -> Vec<DoctorFinding> {
    let mut found = Vec::new();
    if let Some((pid, command)) = &state.lock_holder {
        let what = format!("dpkg is locked by process {pid}: `{}`", command.raw());
        found.push(
            DoctorFinding::new(DoctorSeverity::Note, "packages", what)
                .with_hint("an apply waits until the lock is released"),
        );
    }
    if !state.broken.is_empty() {
        let broken: Vec<String> = state.broken.iter().map(|(name, state)| format!("`{name}` ({state})")).collect();
        found.push(
            DoctorFinding::new(
                DoctorSeverity::Problem,
                "packages",
                format!("not fully installed: {}", broken.join(", ")),
            )
            .with_hint("run `dpkg --configure -a` there and check its output"),
        );
    }
    if found.is_empty() {
        found.push(DoctorFinding::new(
            DoctorSeverity::Ok,
            "packages",
            "dpkg is not locked, all packages are fully installed",
        ));
    }
    found
}

fn get_fact_field<'a>(seen: &'a ObservedHost, name: &str, field: &str) -> Option<&'a Value> {
    seen.facts.0.get(name)?.as_ref().ok()?.get(field)
}

/// Checks for what some kinds of resources need of the system.
fn check_system(seen: &ObservedHost) -> Vec<DoctorFinding> {
    let mut found = Vec::new();
    if let Some(name) = get_fact_field(seen, "os", "pretty_name").and_then(Value::as_str) {
        found.push(DoctorFinding::new(DoctorSeverity::Ok, "system", name));
    }
    if get_fact_field(seen, "tools", "systemctl") == Some(&Value::from(false)) {
        found.push(
            DoctorFinding::new(DoctorSeverity::Note, "system", "systemd not found")
                .with_hint("service, unit and timer steps cannot run there"),
        );
    }
    if matches!(seen.facts.0.get("packages"), Some(Err(_))) {
        found.push(
            DoctorFinding::new(DoctorSeverity::Note, "system", "no supported package manager found")
                .with_hint("package steps cannot run there"),
        );
    }
    if get_fact_field(seen, "time", "synchronized") == Some(&Value::from(false)) {
        found.push(
            DoctorFinding::new(DoctorSeverity::Note, "clock", "not synchronized by a time service")
                .with_hint("run a time service on the host: chrony or systemd-timesyncd"),
        );
    }
    found
}

/// Returns the facts that would be unknown in a plan, with the reason.
fn report_unknown_facts(seen: &ObservedHost) -> impl Iterator<Item = DoctorFinding> {
    let untold = seen.facts.0.iter().filter(|(name, _)| *name != "packages");
    untold.filter_map(|(name, fact)| {
        let why = fact.as_ref().err()?;
        let said = why.said.as_ref().map(UntrustedText::raw).and_then(|said| said.lines().next()).unwrap_or_default();
        let said = if said.is_empty() { String::new() } else { format!(" ({said})") };
        let what = format!("`{name}` would be unknown: {}{said}", why.why);
        Some(
            DoctorFinding::new(DoctorSeverity::Note, "facts", what)
                .with_hint(format!("steps that read `facts.{name}` are unknown on this host")),
        )
    })
}
