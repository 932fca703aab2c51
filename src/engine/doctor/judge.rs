//! What a host's answers say of its readiness: pure, from one round trip.

use super::{Finding, Weight};
use crate::model::{Untrusted, Value};
use crate::plan::{HostSeen, Refused};
use crate::probe::{Account, Observation, Output, PackageManagerState, Probe, Reading, Unknown};
use std::collections::BTreeSet;

/// One line per answer, its fields apart by tabs. It writes nothing. The holder of the lock is the process
/// that its file names, known by the token: to try the lock would be to take it, for a moment in which a run would miss it,
/// and `/proc/locks` does not show it in a container.
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

/// Seconds that the script may take.
const LIMIT_S: u64 = 20;
/// Seconds by which clocks may differ without a word, and without trouble for certificates, tokens and logs.
const SKEW_S: i64 = 2;
const SKEW_BAD_S: i64 = 60;
/// Bytes below which nothing can be done, and below which an update soon cannot.
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

/// The facts that it judges by itself.
const OWN: [&str; 4] = ["os", "tools", "packages", "time"];

/// Returns what a host is asked in one round trip: `read` are the facts that the project reads.
pub fn probes(read: &BTreeSet<String>) -> BTreeSet<Probe> {
    let of_hosts = read.iter().map(String::as_str).filter(|name| !crate::facts::is_of_cluster(name));
    let facts = OWN.into_iter().chain(of_hosts);
    let facts = facts.map(|name| Probe::Fact { name: name.to_owned() });
    facts.chain([script(), Probe::Account, Probe::PackageManager, Probe::Records]).collect()
}

/// Returns what the answers say.
pub fn findings(seen: &HostSeen) -> Vec<Finding> {
    let mut found = vec![account(&seen.observation)];
    match seen.observation.get(&script()) {
        Ok(Reading::Output(output)) if output.stdout.raw().ends_with("end\n") => found.extend(answers(seen, output)),
        Ok(Reading::Output(output)) => {
            let why = Unknown::new("the host's answer is cut").said(output.stderr.clone());
            found.push(unknown("host", &why));
        }
        Ok(_) => found.push(unknown("host", &Unknown::new("the host's answer is of another kind"))),
        Err(why) => found.push(unknown("host", &why)),
    }
    found.push(running(&seen.observation));
    found.extend(packages(seen));
    found.extend(system(seen));
    found.extend(untold(seen));
    found
}

fn unknown(check: &'static str, why: &Unknown) -> Finding {
    let what = match why.said.as_ref().filter(|said| !said.is_empty()) {
        Some(said) => format!("cannot be told: {}: {}", why.why, said.raw().trim()),
        None => format!("cannot be told: {}", why.why),
    };
    Finding::new(Weight::Unknown, check, what)
}

fn account(observation: &Observation) -> Finding {
    match observation.get(&Probe::Account) {
        Ok(Reading::Account(Account::Root)) => Finding::new(Weight::Ok, "root", "acts as root"),
        Ok(Reading::Account(Account::Other(name))) => {
            let Refused { why, hint } = Refused::not_root(name.raw());
            Finding::new(Weight::Problem, "root", why).hint(hint)
        }
        Ok(_) => unknown("root", &Unknown::new("the host's answer is of another kind")),
        Err(why) => unknown("root", &why),
    }
}

/// The lines of the script's answer that begin with `key`, without it.
fn rows<'a>(output: &'a Output, key: &'a str) -> impl Iterator<Item = &'a str> {
    output.stdout.raw().lines().filter_map(move |line| line.strip_prefix(key)?.strip_prefix('\t'))
}

fn answers(seen: &HostSeen, output: &Output) -> Vec<Finding> {
    let mut found = Vec::new();
    found.extend(login(output));
    found.push(tools(output));
    found.extend(rooms(output));
    found.push(clock(seen, output));
    found.push(lock(output));
    found
}

fn login(output: &Output) -> Option<Finding> {
    let (user, shell) = rows(output, "login").next()?.split_once('\t')?;
    let shell = if shell.is_empty() { String::new() } else { format!(", whose shell is `{shell}`") };
    Some(Finding::new(Weight::Ok, "login", format!("logs in as `{user}`{shell}")))
}

fn tools(output: &Output) -> Finding {
    let lacks: Vec<&str> = rows(output, "lacks").collect();
    match lacks.is_empty() {
        true => Finding::new(Weight::Ok, "tools", "every program that forge itself uses is there"),
        false => Finding::new(Weight::Problem, "tools", format!("missing: {}", ticked(&lacks)))
            .hint("install what holds them: coreutils, util-linux, findutils, grep, sed or libc-bin"),
    }
}

fn ticked(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// One filesystem, with the folders that are on it.
struct Room<'a> {
    numbers: &'a str,
    paths: Vec<&'a str>,
}

fn rooms(output: &Output) -> Vec<Finding> {
    let mut filesystems: Vec<Room<'_>> = Vec::new();
    for (path, numbers) in rows(output, "room").filter_map(|row| row.split_once('\t')) {
        match filesystems.iter_mut().find(|room| room.numbers == numbers) {
            Some(room) => room.paths.push(path),
            None => filesystems.push(Room { numbers, paths: vec![path] }),
        }
    }
    let mut found: Vec<Finding> = filesystems.iter().filter_map(room).collect();
    let readonly: Vec<&str> = rows(output, "readonly").collect();
    // Who is not root may write nothing anywhere, and that is told already.
    if !readonly.is_empty() && rows(output, "login").next().is_some() && !readonly.contains(&"/") {
        found.push(
            Finding::new(Weight::Problem, "room", format!("cannot be written: {}", ticked(&readonly)))
                .hint("see how it is mounted: `findmnt -T DIR`"),
        );
    }
    if found.is_empty() {
        found.push(Finding::new(Weight::Ok, "room", "every filesystem that is written to has room"));
    }
    found
}

/// A filesystem without inodes counts none.
fn room(room: &Room<'_>) -> Option<Finding> {
    let numbers: Vec<u64> = room.numbers.split('\t').filter_map(|number| number.parse().ok()).collect();
    let [blocks, size, inodes, all_inodes] = numbers[..] else { return None };
    let free = blocks.saturating_mul(size);
    let paths = ticked(&room.paths);
    let problem = |what: String| Finding::new(Weight::Problem, "room", what);
    // What is small by design is not low: `/run` has what the machine's memory gives it.
    let small = room.paths == ["/run"];
    match free {
        _ if all_inodes > 0 && inodes == 0 => {
            Some(problem(format!("no file can be made in {paths}: no inodes are free")).hint("remove files there"))
        }
        0..ROOM_NONE => Some(problem(format!("no room in {paths}: {} free", size_of(free))).hint("free some there")),
        ROOM_NONE..ROOM_LOW if !small => Some(
            Finding::new(Weight::Note, "room", format!("little room in {paths}: {} free", size_of(free)))
                .hint("packages and images need more; free some there"),
        ),
        _ => None,
    }
}

/// Whole MiB, so that hosts that differ a little read the same.
fn size_of(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

fn clock(seen: &HostSeen, output: &Output) -> Finding {
    let now = rows(output, "now").next().and_then(|now| now.parse::<i64>().ok());
    let (Some(now), Some((began, ended))) = (now, seen.observation.asked()) else {
        return unknown("clock", &Unknown::new("the host's clock is not in its answer"));
    };
    skew(now, began.as_second(), ended.as_second())
}

/// Compares the host's `now` with the time here, before it was asked and after it had answered.
pub(super) fn skew(now: i64, began: i64, ended: i64) -> Finding {
    let (off, side) = match now {
        now if now < began => (began - now, "behind"),
        now if now > ended => (now - ended, "ahead of"),
        _ => (0, ""),
    };
    let weight = match off {
        0..=SKEW_S => return Finding::new(Weight::Ok, "clock", "agrees with this machine's"),
        _ if off <= SKEW_BAD_S => Weight::Note,
        _ => Weight::Problem,
    };
    Finding::new(weight, "clock", format!("is {} {side} this machine's", rough(off)))
        .hint("let a time service keep it (chrony, systemd-timesyncd), there or here")
}

/// Rough, so that hosts with the same trouble read the same.
fn rough(seconds: i64) -> String {
    match seconds {
        ..=60 => "up to a minute".to_owned(),
        61..=3600 => format!("about {} min", (seconds + 30) / 60),
        _ => format!("about {} h", (seconds + 1800) / 3600),
    }
}

fn lock(output: &Output) -> Finding {
    const REMOVE: &str = "`rm -f /run/lock/forge /run/lock/forge.act`";
    let file = rows(output, "lockfile").next();
    match (rows(output, "locked").next(), file) {
        (Some(owner), _) => Finding::new(
            Weight::Note,
            "lock",
            format!("is held: {}", owner.trim().trim_end_matches(';').replace(';', "; ")),
        )
        .hint("a run is at work there; it gives the lock up when it ends"),
        (None, Some(file)) if !(file.starts_with("regular") && file.ends_with(" by root")) => {
            Finding::new(Weight::Problem, "lock", format!("`/run/lock/forge` is not root's file: {file}"))
                .hint(format!("if no forge works there, remove it as root: {REMOVE}"))
        }
        _ => Finding::new(Weight::Ok, "lock", "free"),
    }
}

fn running(observation: &Observation) -> Finding {
    match observation.get(&Probe::Records) {
        Ok(Reading::Records(state)) if state.running.is_empty() => {
            Finding::new(Weight::Ok, "leftovers", "nothing of an earlier run is at work")
        }
        Ok(Reading::Records(state)) => {
            let units: Vec<&str> = state.running.iter().map(|(unit, _)| unit.as_str()).collect();
            Finding::new(Weight::Note, "leftovers", format!("still at work from an earlier run: {}", ticked(&units)))
                .hint("the next `forge apply` waits for it")
        }
        Ok(_) => unknown("leftovers", &Unknown::new("the host's answer is of another kind")),
        Err(why) => unknown("leftovers", &why),
    }
}

fn manager(seen: &HostSeen) -> Option<&str> {
    fact(seen, "packages", "manager")?.as_str()
}

fn packages(seen: &HostSeen) -> Vec<Finding> {
    if manager(seen) != Some("apt") {
        return Vec::new();
    }
    match seen.observation.get(&Probe::PackageManager) {
        Ok(Reading::PackageManager(state)) => package_manager(state),
        Ok(_) => vec![unknown("packages", &Unknown::new("the host's answer is of another kind"))],
        Err(why) => vec![unknown("packages", &why)],
    }
}

fn package_manager(state: &PackageManagerState) -> Vec<Finding> {
    let mut found = Vec::new();
    if let Some((pid, command)) = &state.lock_holder {
        let what = format!("dpkg is locked by process {pid}: `{}`", command.raw());
        found.push(Finding::new(Weight::Note, "packages", what).hint("an apply waits until it is free"));
    }
    if !state.broken.is_empty() {
        let broken: Vec<String> = state.broken.iter().map(|(name, state)| format!("`{name}` ({state})")).collect();
        found.push(
            Finding::new(Weight::Problem, "packages", format!("not fully installed: {}", broken.join(", ")))
                .hint("run `dpkg --configure -a` there and see what it says"),
        );
    }
    if found.is_empty() {
        found.push(Finding::new(Weight::Ok, "packages", "dpkg is free, and every package is fully installed"));
    }
    found
}

fn fact<'a>(seen: &'a HostSeen, name: &str, field: &str) -> Option<&'a Value> {
    seen.facts.0.get(name)?.as_ref().ok()?.get(field)
}

/// What some kinds of resources need of the system.
fn system(seen: &HostSeen) -> Vec<Finding> {
    let mut found = Vec::new();
    if let Some(name) = fact(seen, "os", "pretty_name").and_then(Value::as_str) {
        found.push(Finding::new(Weight::Ok, "system", name));
    }
    if fact(seen, "tools", "systemctl") == Some(&Value::from(false)) {
        found.push(
            Finding::new(Weight::Note, "system", "has no systemd")
                .hint("steps of services, units and timers are not possible there"),
        );
    }
    if matches!(seen.facts.0.get("packages"), Some(Err(_))) {
        found.push(
            Finding::new(Weight::Note, "system", "has no package manager that forge knows")
                .hint("steps of packages are not possible there"),
        );
    }
    if fact(seen, "time", "synchronized") == Some(&Value::from(false)) {
        found.push(
            Finding::new(Weight::Note, "clock", "nothing keeps it right")
                .hint("run a time service there: chrony or systemd-timesyncd"),
        );
    }
    found
}

/// What would be unknown in a plan, and why.
fn untold(seen: &HostSeen) -> impl Iterator<Item = Finding> {
    let untold = seen.facts.0.iter().filter(|(name, _)| *name != "packages");
    untold.filter_map(|(name, fact)| {
        let why = fact.as_ref().err()?;
        let said = why.said.as_ref().map(Untrusted::raw).and_then(|said| said.lines().next()).unwrap_or_default();
        let said = if said.is_empty() { String::new() } else { format!(" ({said})") };
        let what = format!("`{name}` would be unknown: {}{said}", why.why);
        Some(
            Finding::new(Weight::Note, "facts", what)
                .hint(format!("a step that reads `facts.{name}` is unknown there")),
        )
    })
}
