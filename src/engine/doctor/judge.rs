//! Evaluates a host's answers for readiness: pure, from one round trip.

use super::{DoctorFinding, DoctorSeverity};
use crate::model::{UntrustedText, Value};
use crate::plan::{HostRefusal, ObservedHost};
use crate::probe::{
    Observation, PackageManagerState, Probe, ProbeOutput, ProbeReading, ScriptAccount, UnansweredReason,
};
use std::collections::BTreeSet;

/// Prints one line per answer with tab-separated fields; writes nothing. The lock holder is the process named in the
/// lock file, confirmed by its token. Trying the lock would mean taking it for a moment, in which a run would fail to
/// get it, and `/proc/locks` does not show the holder in a container.
const SCRIPT: &str = r#"printf 'now\t%s\n' "$(date +%s)"
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
const LIMIT_S: u64 = 20;
/// Clock skew in seconds that is not reported, and skew that does not yet break certificates, tokens and logs.
const SKEW_S: i64 = 2;
const SKEW_BAD_S: i64 = 60;
/// Free bytes below which nothing can be done, and below which an update soon fails.
const ROOM_NONE: u64 = 10 << 20;
const ROOM_LOW: u64 = 200 << 20;

fn script() -> Probe {
    Probe::Check {
        id: "doctor".to_owned(),
        script: SCRIPT.to_owned(),
        user: None,
        cwd: None,
        env: Vec::new(),
        timeout_s: Some(LIMIT_S),
    }
}

/// Facts with their own evaluation.
const OWN: [&str; 4] = ["os", "tools", "packages", "time"];

/// Returns the probes sent to a host in one round trip; `read` are the facts that the project reads.
pub fn probes(read: &BTreeSet<String>) -> BTreeSet<Probe> {
    let of_hosts = read.iter().map(String::as_str).filter(|name| !crate::facts::is_of_cluster(name));
    let facts = OWN.into_iter().chain(of_hosts);
    let facts = facts.map(|name| Probe::Fact { name: name.to_owned() });
    facts.chain([script(), Probe::Account, Probe::PackageManager, Probe::Records]).collect()
}

/// Returns the findings from the answers.
pub fn findings(seen: &ObservedHost) -> Vec<DoctorFinding> {
    let mut found = vec![account(&seen.observation)];
    match seen.observation.get(&script()) {
        Ok(ProbeReading::Output(output)) if output.stdout.raw().ends_with("end\n") => {
            found.extend(answers(seen, output))
        }
        Ok(ProbeReading::Output(output)) => {
            let why = UnansweredReason::new("the host's answer is truncated").said(output.stderr.clone());
            found.push(unknown("host", &why));
        }
        Ok(_) => found.push(unknown("host", &UnansweredReason::new("unexpected type of answer from the host"))),
        Err(why) => found.push(unknown("host", &why)),
    }
    found.push(running(&seen.observation));
    found.extend(packages(seen));
    found.extend(system(seen));
    found.extend(untold(seen));
    found
}

fn unknown(check: &'static str, why: &UnansweredReason) -> DoctorFinding {
    let what = match why.said.as_ref().filter(|said| !said.is_empty()) {
        Some(said) => format!("could not be evaluated: {}: {}", why.why, said.raw().trim()),
        None => format!("could not be evaluated: {}", why.why),
    };
    DoctorFinding::new(DoctorSeverity::Unknown, check, what)
}

fn account(observation: &Observation) -> DoctorFinding {
    match observation.get(&Probe::Account) {
        Ok(ProbeReading::Account(ScriptAccount::Root)) => {
            DoctorFinding::new(DoctorSeverity::Ok, "root", "runs as root")
        }
        Ok(ProbeReading::Account(ScriptAccount::Other(name))) => {
            let HostRefusal { why, hint } = HostRefusal::not_root(name.raw());
            DoctorFinding::new(DoctorSeverity::Problem, "root", why).hint(hint)
        }
        Ok(_) => unknown("root", &UnansweredReason::new("unexpected type of answer from the host")),
        Err(why) => unknown("root", &why),
    }
}

/// Returns the lines of the script's answer that begin with `key`, without the key.
fn rows<'a>(output: &'a ProbeOutput, key: &'a str) -> impl Iterator<Item = &'a str> {
    output.stdout.raw().lines().filter_map(move |line| line.strip_prefix(key)?.strip_prefix('\t'))
}

fn answers(seen: &ObservedHost, output: &ProbeOutput) -> Vec<DoctorFinding> {
    let mut found = Vec::new();
    found.extend(login(output));
    found.push(tools(output));
    found.extend(rooms(output));
    found.push(clock(seen, output));
    found.push(lock(output));
    found
}

fn login(output: &ProbeOutput) -> Option<DoctorFinding> {
    let (user, shell) = rows(output, "login").next()?.split_once('\t')?;
    let shell = if shell.is_empty() { String::new() } else { format!(" (shell `{shell}`)") };
    Some(DoctorFinding::new(DoctorSeverity::Ok, "login", format!("logs in as `{user}`{shell}")))
}

fn tools(output: &ProbeOutput) -> DoctorFinding {
    let lacks: Vec<&str> = rows(output, "lacks").collect();
    match lacks.is_empty() {
        true => DoctorFinding::new(DoctorSeverity::Ok, "tools", "all programs required by forge are installed"),
        false => DoctorFinding::new(DoctorSeverity::Problem, "tools", format!("missing: {}", ticked(&lacks)))
            .hint("install the packages that contain them: coreutils, util-linux, findutils, grep, sed or libc-bin"),
    }
}

fn ticked(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// A filesystem with the folders on it.
struct DoctorFilesystem<'a> {
    numbers: &'a str,
    paths: Vec<&'a str>,
}

fn rooms(output: &ProbeOutput) -> Vec<DoctorFinding> {
    let mut filesystems: Vec<DoctorFilesystem<'_>> = Vec::new();
    for (path, numbers) in rows(output, "room").filter_map(|row| row.split_once('\t')) {
        match filesystems.iter_mut().find(|room| room.numbers == numbers) {
            Some(room) => room.paths.push(path),
            None => filesystems.push(DoctorFilesystem { numbers, paths: vec![path] }),
        }
    }
    let mut found: Vec<DoctorFinding> = filesystems.iter().filter_map(room).collect();
    let readonly: Vec<&str> = rows(output, "readonly").collect();
    // A non-root login can write nowhere; the `root` check reports that already.
    if !readonly.is_empty() && rows(output, "login").next().is_some() && !readonly.contains(&"/") {
        found.push(
            DoctorFinding::new(DoctorSeverity::Problem, "room", format!("not writable: {}", ticked(&readonly)))
                .hint("check the mount options with `findmnt -T DIR`"),
        );
    }
    if found.is_empty() {
        found.push(DoctorFinding::new(DoctorSeverity::Ok, "room", "all filesystems have enough free space"));
    }
    found
}

/// A filesystem without inodes reports a total of 0.
fn room(room: &DoctorFilesystem<'_>) -> Option<DoctorFinding> {
    let numbers: Vec<u64> = room.numbers.split('\t').filter_map(|number| number.parse().ok()).collect();
    let [blocks, size, inodes, all_inodes] = numbers[..] else { return None };
    let free = blocks.saturating_mul(size);
    let paths = ticked(&room.paths);
    let problem = |what: String| DoctorFinding::new(DoctorSeverity::Problem, "room", what);
    // Small by design is not low: `/run` is sized by the machine's memory.
    let small = room.paths == ["/run"];
    match free {
        _ if all_inodes > 0 && inodes == 0 => {
            Some(problem(format!("no free inodes in {paths}")).hint("delete files there"))
        }
        0..ROOM_NONE => Some(problem(format!("no space in {paths}: {} free", size_of(free))).hint("free up space")),
        ROOM_NONE..ROOM_LOW if !small => Some(
            DoctorFinding::new(
                DoctorSeverity::Note,
                "room",
                format!("low disk space in {paths}: {} free", size_of(free)),
            )
            .hint("packages and images need more; free up space"),
        ),
        _ => None,
    }
}

/// Whole MiB, so that hosts with small differences show the same text.
fn size_of(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

fn clock(seen: &ObservedHost, output: &ProbeOutput) -> DoctorFinding {
    let now = rows(output, "now").next().and_then(|now| now.parse::<i64>().ok());
    let (Some(now), Some((began, ended))) = (now, seen.observation.asked()) else {
        return unknown("clock", &UnansweredReason::new("the host's answer does not contain its time"));
    };
    skew(now, began.as_second(), ended.as_second())
}

/// Compares the host's `now` with the local time before the request and after the answer.
pub(super) fn skew(now: i64, began: i64, ended: i64) -> DoctorFinding {
    let (off, side) = match now {
        now if now < began => (began - now, "behind"),
        now if now > ended => (now - ended, "ahead of"),
        _ => (0, ""),
    };
    let weight = match off {
        0..=SKEW_S => return DoctorFinding::new(DoctorSeverity::Ok, "clock", "in sync with this machine"),
        _ if off <= SKEW_BAD_S => DoctorSeverity::Note,
        _ => DoctorSeverity::Problem,
    };
    DoctorFinding::new(weight, "clock", format!("{} {side} this machine", rough(off)))
        .hint("run a time service (chrony or systemd-timesyncd) on the host or on this machine")
}

/// Rough, so that hosts with the same problem show the same text.
fn rough(seconds: i64) -> String {
    match seconds {
        ..=60 => "up to a minute".to_owned(),
        61..=3600 => format!("about {} min", (seconds + 30) / 60),
        _ => format!("about {} h", (seconds + 1800) / 3600),
    }
}

fn lock(output: &ProbeOutput) -> DoctorFinding {
    const REMOVE: &str = "`rm -f /run/lock/forge /run/lock/forge.act`";
    let file = rows(output, "lockfile").next();
    match (rows(output, "locked").next(), file) {
        (Some(owner), _) => DoctorFinding::new(
            DoctorSeverity::Note,
            "lock",
            format!("locked: {}", owner.trim().trim_end_matches(';').replace(';', "; ")),
        )
        .hint("another run is active there; it releases the lock when it ends"),
        (None, Some(file)) if !(file.starts_with("regular") && file.ends_with(" by root")) => DoctorFinding::new(
            DoctorSeverity::Problem,
            "lock",
            format!("`/run/lock/forge` is not a root-owned file: {file}"),
        )
        .hint(format!("if no forge run is active there, remove it as root: {REMOVE}")),
        _ => DoctorFinding::new(DoctorSeverity::Ok, "lock", "free"),
    }
}

fn running(observation: &Observation) -> DoctorFinding {
    match observation.get(&Probe::Records) {
        Ok(ProbeReading::Records(state)) if state.running.is_empty() => {
            DoctorFinding::new(DoctorSeverity::Ok, "leftovers", "no jobs left running by an earlier run")
        }
        Ok(ProbeReading::Records(state)) => {
            let units: Vec<&str> = state.running.iter().map(|(unit, _)| unit.as_str()).collect();
            DoctorFinding::new(
                DoctorSeverity::Note,
                "leftovers",
                format!("still running from an earlier run: {}", ticked(&units)),
            )
            .hint("the next `forge apply` waits until they finish")
        }
        Ok(_) => unknown("leftovers", &UnansweredReason::new("unexpected type of answer from the host")),
        Err(why) => unknown("leftovers", &why),
    }
}

fn manager(seen: &ObservedHost) -> Option<&str> {
    fact(seen, "packages", "manager")?.as_str()
}

fn packages(seen: &ObservedHost) -> Vec<DoctorFinding> {
    if manager(seen) != Some("apt") {
        return Vec::new();
    }
    match seen.observation.get(&Probe::PackageManager) {
        Ok(ProbeReading::PackageManager(state)) => package_manager(state),
        Ok(_) => vec![unknown("packages", &UnansweredReason::new("unexpected type of answer from the host"))],
        Err(why) => vec![unknown("packages", &why)],
    }
}

fn package_manager(state: &PackageManagerState) -> Vec<DoctorFinding> {
    let mut found = Vec::new();
    if let Some((pid, command)) = &state.lock_holder {
        let what = format!("dpkg is locked by process {pid}: `{}`", command.raw());
        found.push(
            DoctorFinding::new(DoctorSeverity::Note, "packages", what)
                .hint("an apply waits until the lock is released"),
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
            .hint("run `dpkg --configure -a` there and check its output"),
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

fn fact<'a>(seen: &'a ObservedHost, name: &str, field: &str) -> Option<&'a Value> {
    seen.facts.0.get(name)?.as_ref().ok()?.get(field)
}

/// Checks for what some kinds of resources need of the system.
fn system(seen: &ObservedHost) -> Vec<DoctorFinding> {
    let mut found = Vec::new();
    if let Some(name) = fact(seen, "os", "pretty_name").and_then(Value::as_str) {
        found.push(DoctorFinding::new(DoctorSeverity::Ok, "system", name));
    }
    if fact(seen, "tools", "systemctl") == Some(&Value::from(false)) {
        found.push(
            DoctorFinding::new(DoctorSeverity::Note, "system", "systemd not found")
                .hint("service, unit and timer steps cannot run there"),
        );
    }
    if matches!(seen.facts.0.get("packages"), Some(Err(_))) {
        found.push(
            DoctorFinding::new(DoctorSeverity::Note, "system", "no supported package manager found")
                .hint("package steps cannot run there"),
        );
    }
    if fact(seen, "time", "synchronized") == Some(&Value::from(false)) {
        found.push(
            DoctorFinding::new(DoctorSeverity::Note, "clock", "not synchronized by a time service")
                .hint("run a time service on the host: chrony or systemd-timesyncd"),
        );
    }
    found
}

/// Returns the facts that would be unknown in a plan, with the reason.
fn untold(seen: &ObservedHost) -> impl Iterator<Item = DoctorFinding> {
    let untold = seen.facts.0.iter().filter(|(name, _)| *name != "packages");
    untold.filter_map(|(name, fact)| {
        let why = fact.as_ref().err()?;
        let said = why.said.as_ref().map(UntrustedText::raw).and_then(|said| said.lines().next()).unwrap_or_default();
        let said = if said.is_empty() { String::new() } else { format!(" ({said})") };
        let what = format!("`{name}` would be unknown: {}{said}", why.why);
        Some(
            DoctorFinding::new(DoctorSeverity::Note, "facts", what)
                .hint(format!("steps that read `facts.{name}` are unknown on this host")),
        )
    })
}
