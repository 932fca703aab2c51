//! Units: one `systemctl show` for all names, and one read of the mapped files of their main processes.

use super::query::Probe;
use super::section::{ProbeSection, SectionOutput};
use super::{Observation, ProbeReading, RelatedUnit, UnitState};
use crate::model::UntrustedText;
use std::collections::BTreeMap;

/// systemd before 248 does not support `--timestamp=us+utc` and returns nothing; it is queried again without it, and
/// its times are whole seconds.
///
/// The last program replaces the shell: its status is 2 if a process has ended. It also prints when the kernel booted, by
/// the present clock of the host.
///
/// `/proc/uptime` and the monotonic times of systemd are the same clock, except while a machine sleeps. It shows how
/// long ago systemd restarted a unit, whatever was done to the clock of the host. In a container, the two may begin at
/// different moments.
///
/// systemd keeps the state of a unit's file in memory until the manager is reloaded, and calls a unit `enabled` if any link
/// of its `[Install]` section exists, an alias included. So the files are read too. `Unlinked` lists the targets of that
/// section without a link to the enabled unit, as `UNIT:TARGET`: they do not start it at boot. `Linked` lists those with a
/// link to a unit that systemd calls `disabled`, or whose file is gone, and `Masked` units that are links to `/dev/null`.
/// `Also` lists the units that are enabled and disabled together with a unit, as `UNIT:OTHER`. A unit is left out if a
/// drop-in has an `[Install]` section too, or a file cannot be read; so is a target with a specifier. `Doubted` lists the
/// targets with a link to an enabled unit that no other one starts, as `UNIT:TARGET`, if no folder of units has a file of
/// them. Only then is systemd queried for them: a generator may have made them.
///
/// Units that systemd stops together with a queried one, those that it stops before it starts one, and those of `Also`
/// are queried after that, with the ones that stop together with them. Few units have any: targets, slices, scopes and
/// devices are left out, and so are templates.
///
/// A replaced executable is among the mapped files of its process. Only executable mappings count: a new locale archive
/// or message catalogue is not a reason to restart.
const SNIPPET: &str = r#"need systemctl; need grep
forge_has_file() {
case $1 in *@*) return 0 ;; *.service|*.socket|*.target|*.timer|*.path) ;; *) return 0 ;; esac
for z in /etc /run /usr/local/lib /usr/lib /lib; do
[ ! -e "$z/systemd/system/$1" ] || return 0
done
return 1
}
forge_links() {
v= w= m= x= y= n='
'
while [ -n "$1" ]; do
b=$n${1%%"$n$n"*}$n
case $1 in *"$n$n"*) set -- "${1#*"$n$n"}" ;; *) set -- '' ;; esac
i=${b#*"${n}Id="}; i=${i%%"$n"*}
if [ "/etc/systemd/system/$i" -ef /dev/null ]; then m="$m $i"; continue; fi
case $b in
*"${n}LoadState=not-found$n"*)
set +f
for a in /etc/systemd/system/*.wants/"$i" /etc/systemd/system/*.requires/"$i"; do
if [ -L "$a" ]; then a=${a%/*}; a=${a##*/}; w="$w $i:${a%.*}"; fi
done
set -f
continue ;;
*"${n}UnitFileState=enabled$n"*) e=yes ;;
*"${n}UnitFileState=disabled$n"*) e= ;;
*) continue ;;
esac
case $b in *"${n}FragmentPath=/"*) ;; *) continue ;; esac
f=${b#*"${n}FragmentPath="}; f=${f%%"$n"*}
d=; case $b in *"${n}DropInPaths="*) d=${b#*"${n}DropInPaths="}; d=${d%%"$n"*} ;; esac
for a in $d; do
[ -r "$a" ] || continue 2
while IFS= read -r l || [ -n "$l" ]; do case $l in '[Install]'*) continue 3 ;; esac; done <"$a"
done
[ -r "$f" ] || continue
s= u= g=
while IFS= read -r l || [ -n "$l" ]; do
case $s$l in
'[Install]WantedBy='*) k=wants ;;
'[Install]RequiredBy='*) k=requires ;;
'[Install]UpheldBy='*) k=upholds ;;
'[Install]Also='*) for t in ${l#*=}; do x="$x $i:$t"; done; continue ;;
*) case $l in '['*) s=${l%%]*}] ;; esac; continue ;;
esac
for t in ${l#*=}; do
case $t in *%*) continue ;; esac
for a in /etc /run /usr/local/lib /usr/lib /lib; do
a=$a/systemd/system/$t.$k/$i
if [ -L "$a" ] || [ -e "$a" ]; then
if [ -z "$e" ]; then w="$w $i:$t"; elif forge_has_file "$t"; then g=yes; else u="$u $i:$t"; fi
continue 2
fi
done
[ -z "$e" ] || v="$v $i:$t"
done
done <"$f"
[ -n "$u" ] || continue
set +f
for a in /etc /run /usr/local/lib /usr/lib /lib; do
for a in "$a"/systemd/system/*.wants/"$i" "$a"/systemd/system/*.requires/"$i" "$a"/systemd/system/*.upholds/"$i"; do
[ -L "$a" ] || continue
t=${a%/*}; t=${t##*/}
if forge_has_file "${t%.*}"; then g=yes; fi
done
done
set -f
[ -n "$g" ] || y="$y$u"
done
printf 'Unlinked=%s\nLinked=%s\nMasked=%s\nAlso=%s\nDoubted=%s\n' "$v" "$w" "$m" "$x" "$y"
}
forge_doubted() {
set --
for t in $y; do set -- "$@" "${t#*:}"; done
[ "$#" -eq 0 ] || printf '\n%s\n' "$(systemctl show --no-pager -p Id,Names,LoadState -- "$@" 2>/dev/null)"
}
forge_related() {
q=$1 k= r= f=$IFS
p=Id,Names,LoadState,ActiveState,UnitFileState
p=$p,RequiredBy,BoundBy,ConsistsOf,PropagatesStopTo
for t in $x; do r="$r ${t#*:}"; done
for a in 1 2 3 4 5; do
IFS=$n
for l in $q; do
case $l in
Id=*) k="$k ${l#*=} " ;;
RequiredBy=*|BoundBy=*|ConsistsOf=*|PropagatesStopTo=*) r="$r ${l#*=}" ;;
Conflicts=*|ConflictedBy=*) [ "$a" != 1 ] || r="$r ${l#*=}" ;;
esac
done
IFS=$f
set --
for t in $r; do
case $t in
*@.*|*%*) continue ;;
*.service|*.socket|*.timer|*.path|*.mount|*.automount|*.swap) ;;
*) continue ;;
esac
case $k in *" $t "*) ;; *) set -- "$@" "$t"; k="$k $t " ;; esac
done
[ "$#" -gt 0 ] || return 0
q=$(systemctl show --no-pager -p "$p" -- "$@")
[ -n "$q" ] || return 0
printf '\n%s\n' "$q"
r=
done
}
forge_units() {
p=Id,Names,LoadState,ActiveState,SubState,UnitFileState,NeedDaemonReload,InvocationID,FragmentPath,DropInPaths
p=$p,MainPID,ActiveEnterTimestamp,ExecMainStartTimestamp,Result,Type,RemainAfterExit,CanReload
p=$p,FreezerState,NextElapseUSecRealtime,NRestarts,ActiveEnterTimestampMonotonic,ExecMainStartTimestampMonotonic
p=$p,ExecMainExitTimestampMonotonic,EnvironmentFiles,WantedBy,UpheldBy,TriggeredBy,RequiredBy,BoundBy,ConsistsOf,PropagatesStopTo,Conflicts,ConflictedBy
o=$(systemctl show --no-pager --timestamp=us+utc -p "$p" -- "$@" 2>/dev/null)
case $o in
*Id=*) ;;
*) o=$(systemctl show --no-pager -p "$p" -- "$@") || exit ;;
esac
{ read -r up r </proc/uptime; } 2>/dev/null || up=
[ -e /run/systemd/container ] && c=yes || c=no
set -f
printf '%s\n\nUptime=%s\nContainer=%s\n' "$o" "$up" "$c"
forge_links "$o"
forge_doubted
forge_related "$o"
printf '\nforge-maps\n'
set --; IFS='
'
for l in $o; do
case $l in MainPID=0) ;; MainPID=*) set -- "$@" "/proc/${l#*=}/maps" ;; esac
done
exec grep -H -e '^[^ ]* ..x. .* (deleted)$' -e '^btime ' -- "$@" /proc/stat 2>&1
}
forge_units"#;

/// Folders of programs and libraries; a deleted mapping elsewhere is a process's own temporary file.
const PROGRAM_DIRECTORIES: [&str; 6] = ["/usr/", "/lib", "/bin/", "/sbin/", "/opt/", "/snap/"];

/// Returns why `name` cannot be queried. One invalid name would abort `systemctl show` for all names after it.
pub(crate) fn refusal_reason(name: &str) -> Option<&'static str> {
    let known = |c: char| c.is_ascii_alphanumeric() || ":-_.\\@".contains(c);
    // The mount of `/` is `-.mount`.
    let is_option = name.starts_with('-') && name != "-.mount";
    if name.is_empty() || name.len() > 255 || is_option || !name.chars().all(known) {
        Some("is not a unit name")
    } else if name.ends_with('@') || name.contains("@.") || name.starts_with('@') {
        Some("is a template: a unit needs a name after `@`")
    } else {
        None
    }
}

pub(crate) fn build_section(probes: Vec<Probe>) -> Option<ProbeSection> {
    let mut section = ProbeSection::new("`systemctl`", probes, read_answers);
    let body = section.body.code(SNIPPET);
    section.body =
        section.probes.iter().filter_map(probe_unit).fold(body, |body, name| body.word(full_unit_name(name)));
    section.cap = 16_384 * (section.probes.len() as u64 + 4);
    section.waits = true;
    (!section.probes.is_empty()).then_some(section)
}

fn probe_unit(probe: &Probe) -> Option<&str> {
    match probe {
        Probe::Unit { name } => Some(name),
        _ => None,
    }
}

/// Returns the name with its type, as `systemctl` completes it.
pub(super) fn full_unit_name(name: &str) -> String {
    const TYPES: [&str; 11] =
        ["service", "socket", "target", "timer", "mount", "automount", "path", "slice", "scope", "swap", "device"];
    match name.rsplit_once('.') {
        Some((_, suffix)) if TYPES.contains(&suffix) => name.to_owned(),
        _ => format!("{name}.service"),
    }
}

fn read_answers(section: &ProbeSection, raw: &SectionOutput, out: &mut Observation) {
    let stdout = String::from_utf8_lossy(&raw.stdout);
    // Recordings of older versions mark the end in the output.
    let is_whole = |maps: &str| raw.is_complete(&[0, 1, 2]) || maps.ends_with("forge-end\n");
    let whole = stdout.split_once("\nforge-maps\n").filter(|(_, maps)| is_whole(maps));
    let (blocks, maps) = whole.unwrap_or_default();
    let units: Vec<BTreeMap<&str, &str>> = blocks.split("\n\n").map(parse_properties).collect();
    let environment: Vec<Vec<String>> = blocks.split("\n\n").map(list_environment_files).collect();
    let about_all = |key: &str| units.iter().filter(|unit| !unit.contains_key("Id")).find_map(|block| block.get(key));
    let times = HostTimes {
        uptime: about_all("Uptime").and_then(|seconds| seconds.parse().ok()),
        booted: maps.lines().find_map(|line| line.strip_prefix("/proc/stat:btime ")?.parse().ok()),
        is_machine: about_all("Container") == Some(&"no"),
    };
    let links = UnitLinks {
        unlinked: about_all("Unlinked").copied().unwrap_or_default(),
        linked: about_all("Linked").copied().unwrap_or_default(),
        masked: about_all("Masked").copied().unwrap_or_default(),
        also: about_all("Also").copied().unwrap_or_default(),
        doubted: about_all("Doubted").copied().unwrap_or_default(),
    };
    let related = RelatedUnits { units: &units };
    for probe in &section.probes {
        let Some(name) = probe_unit(probe).map(full_unit_name) else { continue };
        let unit = units.iter().zip(&environment).find(|(unit, _)| has_unit_name(unit, &name));
        let answer = unit
            .and_then(|(unit, environment_files)| {
                let state = build_unit_state(unit, maps, &times)?;
                let state = UnitState { environment_files: environment_files.clone(), ..state };
                let state = links.correct_state(unit, state);
                let id = unit.get("Id").copied().unwrap_or_default();
                let also = links.list_entries(links.also, id);
                let missing_targets = related.list_missing(&links.list_entries(links.doubted, id));
                let missing_targets =
                    if is_started_by_other(unit, &missing_targets) { Vec::new() } else { missing_targets };
                let state = UnitState { missing_targets, ..state };
                Some(related.complete_state(unit, &also, state))
            })
            .map(|unit| ProbeReading::Unit(Box::new(unit)))
            .ok_or_else(|| raw.explain_missing(section));
        out.insert(probe.clone(), answer);
    }
}

fn parse_properties(block: &str) -> BTreeMap<&str, &str> {
    block.lines().filter_map(|line| line.split_once('=')).collect()
}

/// Returns the paths and patterns of `EnvironmentFile=`, each of which systemd prints as a property of its own.
fn list_environment_files(block: &str) -> Vec<String> {
    let values = block.lines().filter_map(|line| line.strip_prefix("EnvironmentFiles="));
    values.filter_map(|value| Some(value.rsplit_once(" (ignore_errors=")?.0.to_owned())).collect()
}

/// Reports whether a unit that systemd has loaded starts this one, other than the targets that do not exist.
fn is_started_by_other(unit: &BTreeMap<&str, &str>, missing: &[String]) -> bool {
    let starters = ["WantedBy", "UpheldBy", "TriggeredBy", "RequiredBy", "BoundBy"];
    let mut names = starters.iter().filter_map(|key| unit.get(key)).flat_map(|names| names.split_whitespace());
    names.any(|name| !missing.iter().any(|target| target == name))
}

fn has_unit_name(unit: &BTreeMap<&str, &str>, name: &str) -> bool {
    let has = |key: &str| unit.get(key).is_some_and(|names| names.split(' ').any(|n| n == name));
    has("Id") || has("Names")
}

/// The links of all units, as the snippet lists them.
struct UnitLinks<'a> {
    unlinked: &'a str,
    linked: &'a str,
    masked: &'a str,
    also: &'a str,
    doubted: &'a str,
}

impl<'a> UnitLinks<'a> {
    /// Returns what a list has for a unit.
    fn list_entries(&self, listed: &'a str, id: &str) -> Vec<&'a str> {
        let entries = listed.split_whitespace().filter_map(|entry| entry.split_once(':'));
        entries.filter(|(name, _)| *name == id).map(|(_, other)| other).collect()
    }

    /// Corrects the state that systemd has in memory by the links on disk.
    fn correct_state(&self, unit: &BTreeMap<&str, &str>, state: UnitState) -> UnitState {
        let id = unit.get("Id").copied().unwrap_or_default();
        let list_targets =
            |listed| -> Vec<String> { self.list_entries(listed, id).into_iter().map(str::to_owned).collect() };
        let is_masked = self.masked.split_whitespace().any(|name| name == id);
        let state = UnitState { unlinked: list_targets(self.unlinked), ..state };
        match (is_masked, list_targets(self.linked).is_empty()) {
            (true, _) => UnitState { load: "masked".to_owned(), file_state: "masked".to_owned(), ..state },
            (false, false) => UnitState { file_state: "enabled".to_owned(), ..state },
            (false, true) => state,
        }
    }
}

/// The queried units, and those that the snippet queried because of them.
struct RelatedUnits<'a> {
    units: &'a [BTreeMap<&'a str, &'a str>],
}

impl<'a> RelatedUnits<'a> {
    /// Adds the units that change together with one. `also` are those of `Also=`.
    fn complete_state(&self, unit: &BTreeMap<&'a str, &'a str>, also: &[&str], state: UnitState) -> UnitState {
        let also: Vec<&str> = also.iter().copied().filter(|name| is_queried(name)).collect();
        let dependents = list_related(unit, &STOPPED_WITH);
        let conflicting = list_related(unit, &["Conflicts", "ConflictedBy"]);
        let mut all = also.iter().chain(&dependents).chain(&conflicting);
        let own = unit.get("Id").copied().unwrap_or_default();
        let describe = |name: &str| self.find_unit(name).map(|other| build_related_unit(name, other));
        UnitState {
            related_unread: all.any(|name| self.find_unit(name).is_none()),
            also: also.iter().filter_map(|name| describe(name)).filter(|other| !other.file_state.is_empty()).collect(),
            dependents: self.list_stopped(own, dependents),
            conflicting: self.list_stopped(own, conflicting),
            ..state
        }
    }

    /// Returns these targets if none of them exists.
    fn list_missing(&self, targets: &[&str]) -> Vec<String> {
        let is_missing =
            |name: &&str| self.find_unit(name).is_some_and(|unit| unit.get("LoadState") == Some(&"not-found"));
        let missing = if targets.iter().all(is_missing) { targets } else { &[] };
        missing.iter().map(|name| (*name).to_owned()).collect()
    }

    /// Returns the active ones of `left`, and those that stop together with them.
    fn list_stopped(&self, own: &str, mut left: Vec<&'a str>) -> Vec<RelatedUnit> {
        let mut stopped: BTreeMap<&str, RelatedUnit> = BTreeMap::new();
        while let Some(name) = left.pop() {
            // A long chain is not followed to its end.
            let Some(other) = self.find_unit(name).filter(|other| is_up(other)) else { continue };
            let id = other.get("Id").copied().unwrap_or(name);
            if id != own && stopped.insert(id, build_related_unit(id, other)).is_none() {
                left.extend(list_related(other, &STOPPED_WITH));
            }
        }
        stopped.into_values().collect()
    }

    fn find_unit(&self, name: &str) -> Option<&BTreeMap<&'a str, &'a str>> {
        self.units.iter().find(|unit| has_unit_name(unit, name))
    }
}

/// The properties with the units that systemd stops together with a unit.
const STOPPED_WITH: [&str; 4] = ["RequiredBy", "BoundBy", "ConsistsOf", "PropagatesStopTo"];

fn build_related_unit(name: &str, unit: &BTreeMap<&str, &str>) -> RelatedUnit {
    let file_state = unit.get("UnitFileState").copied().unwrap_or_default().to_owned();
    RelatedUnit { name: name.to_owned(), file_state }
}

fn list_related<'a>(unit: &BTreeMap<&'a str, &'a str>, keys: &[&str]) -> Vec<&'a str> {
    let named = keys.iter().filter_map(|key| unit.get(key)).flat_map(|names| names.split_whitespace());
    named.filter(|name| is_queried(name)).collect()
}

/// Reports whether the snippet queries a related unit.
fn is_queried(name: &str) -> bool {
    const TYPES: [&str; 7] = ["service", "socket", "timer", "path", "mount", "automount", "swap"];
    let is_known = name.rsplit_once('.').is_some_and(|(_, suffix)| TYPES.contains(&suffix));
    is_known && !name.contains("@.") && !name.contains('%')
}

fn is_up(unit: &BTreeMap<&str, &str>) -> bool {
    matches!(unit.get("ActiveState"), Some(&("active" | "reloading" | "refreshing")))
}

/// What the host says of its clocks. Recordings of older versions lack some of it.
struct HostTimes {
    /// Seconds since boot, at the time of the query.
    uptime: Option<f64>,
    /// When the kernel booted, by the present clock of the host, in whole seconds since the epoch, rounded down.
    booted: Option<f64>,
    /// Whether the host is known not to be a container.
    is_machine: bool,
}

impl HostTimes {
    /// Returns the seconds by which the clock of the host was set since the unit started: systemd keeps the time of the
    /// start by the clock of then, and by the clock since boot that is never set.
    fn find_clock_change(&self, unit: &BTreeMap<&str, &str>, started: f64) -> f64 {
        let since_boot = start_since_boot(unit).filter(|_| started > 0.0);
        let change = self.booted.zip(since_boot).map(|(booted, since_boot)| booted + since_boot - started);
        change.filter(|seconds| seconds.abs() >= CLOCK_TOLERANCE_S).unwrap_or(0.0)
    }

    /// Returns the present time of the host's clock.
    fn find_now(&self) -> Option<f64> {
        Some(self.booted.filter(|_| self.is_machine)? + self.uptime?)
    }
}

/// Differences of the clocks below this are rounding.
const CLOCK_TOLERANCE_S: f64 = 2.0;

/// Builds a unit's state; `None` if properties that every systemd prints are missing.
fn build_unit_state(unit: &BTreeMap<&str, &str>, maps: &str, times: &HostTimes) -> Option<UnitState> {
    let text = |key: &str| unit.get(key).copied().unwrap_or("").to_owned();
    let yes = |key: &str| unit.get(key) == Some(&"yes");
    let freezer = unit.get("FreezerState").copied().unwrap_or_default();
    let main_pid = text("MainPID").parse().unwrap_or(0);
    let restarts = text("NRestarts").parse().unwrap_or(0);
    let (active, started) = (text("ActiveEnterTimestamp"), text("ExecMainStartTimestamp"));
    let (active_at, main_at) = (parse_timestamp(&active)?, parse_timestamp(&started)?);
    let (deleted, maps_unread) =
        if main_pid == 0 { (Vec::new(), false) } else { find_deleted_mappings(maps, main_pid) };
    Some(UnitState {
        load: (*unit.get("LoadState")?).to_owned(),
        active: (*unit.get("ActiveState")?).to_owned(),
        sub: text("SubState"),
        frozen: matches!(freezer, "frozen" | "freezing"),
        frozen_by_parent: matches!(freezer, "frozen-by-parent" | "freezing-by-parent"),
        file_state: text("UnitFileState"),
        need_daemon_reload: yes("NeedDaemonReload"),
        invocation: text("InvocationID"),
        fragment: text("FragmentPath"),
        drop_ins: shlex::split(&text("DropInPaths")).unwrap_or_default(),
        main_pid,
        active_since: active_at,
        main_started: main_at,
        clock_change: times.find_clock_change(unit, if main_at > 0.0 { main_at } else { active_at }),
        now: times.find_now(),
        coarse_times: [&active, &started].iter().any(|time| time.contains(':') && !time.contains('.')),
        deleted,
        maps_unread,
        result: text("Result"),
        service_type: text("Type"),
        remain_after_exit: yes("RemainAfterExit"),
        can_reload: yes("CanReload"),
        next_elapse: parse_timestamp(&text("NextElapseUSecRealtime"))?,
        restarts,
        environment_files: Vec::new(),
        unlinked: Vec::new(),
        missing_targets: Vec::new(),
        also: Vec::new(),
        dependents: Vec::new(),
        conflicting: Vec::new(),
        related_unread: false,
        restarted_ago: times.uptime.filter(|_| restarts > 0).and_then(|now| start_age(unit, now)),
        ran_for: run_time(unit).filter(|_| restarts > 0 && main_pid == 0),
    })
}

/// Returns how many seconds before `now` the last start was, both since boot. A container may count its uptime from its
/// own start, and systemd from the start of the machine: no age is known there.
fn start_age(unit: &BTreeMap<&str, &str>, now: f64) -> Option<f64> {
    Some(now - start_since_boot(unit)?).filter(|age| *age >= 0.0)
}

/// Returns how many seconds after the boot the unit was started, by the clock that is never set.
fn start_since_boot(unit: &BTreeMap<&str, &str>) -> Option<f64> {
    time_since_boot(unit, "ExecMainStartTimestampMonotonic")
        .or_else(|| time_since_boot(unit, "ActiveEnterTimestampMonotonic"))
}

/// Returns for how many seconds the last main process ran that has ended.
fn run_time(unit: &BTreeMap<&str, &str>) -> Option<f64> {
    let ended = time_since_boot(unit, "ExecMainExitTimestampMonotonic")?;
    let started = time_since_boot(unit, "ExecMainStartTimestampMonotonic")?;
    Some(ended - started).filter(|seconds| *seconds >= 0.0)
}

/// Returns a time of systemd's in seconds since the boot; `None` for 0, which is none.
fn time_since_boot(unit: &BTreeMap<&str, &str>, key: &str) -> Option<f64> {
    let microseconds: f64 = unit.get(key)?.parse().ok()?;
    Some(microseconds / 1e6).filter(|seconds| *seconds > 0.0)
}

/// Parses `Sat 2026-11-21 09:48:48.480350 UTC` as seconds since the epoch. Empty text and `n/a` give 0; other text
/// gives `None`.
fn parse_timestamp(text: &str) -> Option<f64> {
    if matches!(text, "" | "n/a" | "0") {
        return Some(0.0);
    }
    let text = text.strip_suffix(" UTC")?;
    let (_, text) = text.split_once(' ')?;
    let at = jiff::civil::DateTime::strptime("%Y-%m-%d %H:%M:%S%.f", text).ok()?;
    let at = at.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp();
    Some(at.as_microsecond() as f64 / 1e6)
}

/// Returns the deleted programs and libraries of `pid`, and whether its mappings could not be read. A process that has
/// ended in the meantime is not a failure.
fn find_deleted_mappings(maps: &str, pid: u32) -> (Vec<UntrustedText>, bool) {
    let file = format!("/proc/{pid}/maps:");
    let denied = format!("{file} Permission denied");
    let paths = maps.lines().filter_map(|line| line.strip_prefix(&file)).filter_map(parse_deleted_mapping);
    let mut paths: Vec<UntrustedText> = paths.map(UntrustedText::from).collect();
    paths.sort();
    paths.dedup();
    (paths, maps.lines().any(|line| line.ends_with(&denied)))
}

/// Returns the path of a mapping: the text after address, permissions, offset, device and inode.
fn parse_deleted_mapping(line: &str) -> Option<&str> {
    let mut rest = line.strip_suffix(" (deleted)")?;
    for _ in 0..5 {
        rest = rest.split_once(' ')?.1;
    }
    let path = rest.trim_start();
    PROGRAM_DIRECTORIES.iter().any(|folder| path.starts_with(folder)).then_some(path)
}

#[cfg(test)]
mod tests;
