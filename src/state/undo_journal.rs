//! The undo journal of a host: the state before each change of a run. `kube` keeps the same groups in the cluster.
//!
//! Each group of changes has one file `/var/lib/forge/undo/RUN/NUMBER.json`, and next to it copies of the files that it
//! replaces. The script of the group writes them before its first change; so they exist whatever happens to forge.

use super::record::{STATE_DIR, StepRecord, build_records_script, build_staged_records_script};
use crate::model::{SecretStore, StepId, UndoEffect, UndoRetention, Value};
use crate::script::{ShellFragment, safe_path};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The format version of a journal file; see `schemas/undo.json`.
const UNDO_VERSION: u32 = 1;

/// The changes of one script, and the state before them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UndoGroup {
    /// Format version.
    pub version: u32,
    /// The cluster whose inventory declares the steps.
    pub cluster: String,
    /// The ID of the run.
    pub run: String,
    /// The machine that forge ran on.
    pub controller: String,
    /// The user who started forge.
    pub user: String,
    /// RFC 3339, UTC, by the controller's clock.
    pub time: String,
    /// In the order of the script.
    pub steps: Vec<UndoStep>,
}

/// One step that changes the host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UndoStep {
    /// `recipe/step[key]`
    pub step: StepId,
    /// The kind of resource: `file`, `package` …
    pub kind: String,
    /// The object: `/etc/motd`, `nginx`.
    pub title: String,
    /// How the change is undone.
    pub effect: UndoEffect,
    /// Whether the step declares a secret, so that plans show no content of its files.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub secret: bool,
    /// The steps on whose change the process of the step restarts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub restart_on: Vec<StepId>,
    /// Seconds of the guard of the change, which its undo has too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guard_s: Option<u64>,
    /// The records that the step replaces.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub records: Vec<FormerRecord>,
}

/// The type of a path before a change, as the host noted it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormerState {
    /// A regular file, which was copied.
    File,
    /// A symbolic link, which was copied.
    Link,
    /// A directory or a special file, which was not copied.
    Other,
    /// Nothing.
    Nothing,
}

impl FormerState {
    /// Returns the word of the journal.
    pub fn as_word(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Link => "link",
            Self::Other => "other",
            Self::Nothing => "none",
        }
    }

    /// Parses the word of the journal.
    pub fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "file" => Self::File,
            "link" => Self::Link,
            "other" => Self::Other,
            "none" => Self::Nothing,
            _ => return None,
        })
    }
}

/// A record before a change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FormerRecord {
    /// The step that it is the record of.
    pub step: StepId,
    /// Its content; absent if there was no record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
}

/// What a group's script does for an undo: before its first change, and after its last one.
#[derive(Clone, Debug, Default)]
pub struct UndoScripts {
    /// Code in the subshell of the first action, which exits with a non-zero status if the state before cannot be kept.
    pub before: ShellFragment,
    /// Code of a function that notes when the paths were changed last.
    pub after: ShellFragment,
}

impl UndoScripts {
    /// Returns the script that writes the records of steps that were proven before, in front of the script that contains
    /// these, which are returned too: they sync the records together with the state before the change, and place them
    /// before the first action. If that state cannot be kept, the records are placed nevertheless.
    pub fn place_records(&self, records: &[(StepId, StepRecord)]) -> (ShellFragment, Self) {
        if self.before.is_empty() {
            return (build_records_script(records), self.clone());
        }
        let after = ShellFragment::new().code(PLACE_LEFT_RECORDS).append_fragment(self.after.clone());
        (build_staged_records_script(records), Self { before: self.before.clone(), after })
    }
}

/// The subshell of the first action has placed them, or failed before.
const PLACE_LEFT_RECORDS: &str = r#"set --
for f in $forge_new; do [ ! -e "$f" ] || set -- "$@" "$f"; done
forge_new=$*
[ -z "$forge_new" ] || { sync $forge_new && forge_place || exit 1; }
forge_new=
"#;

impl UndoGroup {
    /// Builds the group of a run that begins at `time`.
    pub fn new(cluster: &str, run: &str, steps: Vec<UndoStep>) -> Self {
        Self {
            version: UNDO_VERSION,
            cluster: cluster.to_owned(),
            run: run.to_owned(),
            controller: String::new(),
            user: String::new(),
            time: String::new(),
            steps,
        }
    }

    /// Parses one group of a journal. The recipes of an undo are made from it, so a host must not be able to name a secret
    /// there: forge itself never writes a placeholder to a host or to the cluster.
    pub fn parse(text: &str) -> Option<Self> {
        let group: Self = serde_json::from_str(text).ok()?;
        // The text may contain an escaped placeholder.
        let decoded = serde_json::to_string(&group).ok()?;
        (!SecretStore::has_placeholder(&decoded)).then_some(group)
    }

    /// Returns the paths of all steps, each once. Its position is the number of its copy.
    pub fn paths(&self) -> Vec<&str> {
        let mut paths: Vec<&str> = Vec::new();
        for path in self.steps.iter().flat_map(|step| step.effect.list_copied_paths()) {
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
        paths
    }

    /// Returns the directory of the run on the host.
    pub fn folder(run: &str) -> String {
        format!("{STATE_DIR}/undo/{run}")
    }

    /// Returns the path of a copy on the host.
    pub fn copy_path(run: &str, number: u64, path: usize) -> String {
        format!("{}/{number}-{path}", Self::folder(run))
    }

    /// Returns the path of the file that notes that the `remove` of a step ran, although the run did not prove the step.
    pub fn removal_mark_path(run: &str, number: u64, step: usize) -> String {
        format!("{}/{number}-{step}.removed", Self::folder(run))
    }

    /// Returns the scripts of the group with that number in its run. The first one of a run removes earlier runs that
    /// are not kept any longer.
    pub fn build_scripts(&self, number: u64, kept: UndoRetention) -> UndoScripts {
        let folder = Self::folder(&self.run);
        let file = |kind: &str| format!("{folder}/{number}.{kind}");
        let paths = self.paths();
        let before = ShellFragment::new()
            .code("forge_keep() {\nset --")
            .word(&folder)
            .word(file("json"))
            .word(file("before"))
            .number(u64::from(kept.runs))
            .number(u64::from(kept.days.unwrap_or_default()))
            .code("\nd=$1 json=$2 states=$3 limit=$4 days=$5 synced=")
            .code(safe_path::ENTER_DIRECTORY)
            .code(OPEN_JOURNAL);
        let before = paths.iter().enumerate().fold(before, |script, (at, path)| {
            script.code("keep").word(*path).word(Self::copy_path(&self.run, number, at)).code("\n")
        });
        // Serialization of a struct of text and JSON cannot fail.
        let body = serde_json::to_vec(self).unwrap_or_default();
        let before = before.print_bytes(&body).code(CLOSE_JOURNAL);
        let after = match paths.is_empty() {
            true => ShellFragment::new(),
            false => {
                let all = paths.iter().fold(ShellFragment::new().code("set --"), |script, path| script.word(*path));
                // A path that the change removed is missing in the output.
                all.code("\nstat --printf='after\\0%.Z %f %u %g %s %.Y %n\\0' -- \"$@\" 2>/dev/null >")
                    .word(file("after"))
                    .code("\n:\n")
            }
        };
        UndoScripts { before, after }
    }
}

/// A retried script keeps what its first attempt found. The boot in which a group changed the host is noted for the guard
/// of a reboot. dash calls a full disk an I/O error: in `unwritten PATH`, another program says why a file cannot be
/// written. A journal that was cut off is removed. `keep PATH COPY` copies the file or link at the path, from the
/// entered directory: other users may place a link in its name.
const OPEN_JOURNAL: &str = r#"
[ ! -e "$json" ] || return 0
fail() { printf 'forge: cannot keep the state before the change: %s\n' "$*" >&2; exit 1; }
unwritten() { echo x | cat >"$1"; rm -f -- "$1"; fail "cannot write $1"; }
if [ ! -d "$d" ]; then
  mkdir -p -- "$d" || fail "cannot make $d"
  set -- "${d%/*}"/*/
  while [ $# -gt "$limit" ]; do rm -rf -- "$1"; shift; done
  [ "$days" = 0 ] || find "${d%/*}" -mindepth 1 -maxdepth 1 -type d -mmin "+$((days * 1440))" -exec rm -rf -- {} +
fi
: >"$states" || unwritten "$states"
{ IFS= read -r boot </proc/sys/kernel/random/boot_id && printf '%s\n' "$boot" >"${json%.json}.boot"; } 2>/dev/null
keep() {
  if [ -L "$1" ]; then state=link
  elif [ -f "$1" ]; then state=file
  elif [ -e "$1" ]; then state=other
  else state=none; fi
  case $state in
    file|link) ( enter "${1%/*}" && cp -a -T -- "./${1##*/}" "$2" || fail "cannot copy $1 to $2" ) || exit 1
      [ $state = link ] || synced="$synced $2" ;;
  esac
  printf 'before\0%s %s\0' "$state" "$1" 2>/dev/null >>"$states" || unwritten "$states"
}
"#;

/// Reads the printed journal of the group. The names in `$synced` contain no blanks.
const CLOSE_JOURNAL: &str = r#" 2>/dev/null >"$json" || unwritten "$json"
sync -- "$json" "$states" $synced "$d" ${forge_new-} || fail "cannot sync $d"
[ -z "${forge_new-}" ] || forge_place || fail "cannot write the records of earlier steps"
}
forge_keep
"#;

/// Prints the journal of a run, `$1`, as fields that end with NUL: `group` with a number, `json`, then `before STATE
/// PATH` and `after` with what `stat` printed then, `same` with a path that is as before again, and `now` with what
/// `stat` prints now. `recorded` is the name of a record with its run, `NAME:"run":"RUN"`; `settled` has the
/// steps of the run whose change was undone. For each later run follow
/// `later` with a group, `undone` with the steps whose change was undone, and `found`: what the run found at a path of the
/// first one, `STATE back|moved`, what `stat` prints about the copy, and the path; `back` if the path has that content,
/// owner and mode now. The ID of a run begins with its time, so names are in the order of the runs. Of a run that the host
/// does not keep it prints only `oldest` with the oldest one that it keeps.
pub const READ_JOURNAL: &str = r#"
run=$1 d=/var/lib/forge/undo/$1
if [ -e /var/lib/forge ] && [ ! -r /var/lib/forge ]; then echo 'root is required: set `connect: { sudo: … }` or log in as root' >&2; exit 1; fi
if ! cd -- "$d" 2>/dev/null; then
  for other in "${d%/*}"/*/; do
    [ ! -d "$other" ] || { other=${other%/}; printf 'oldest\0%s\0' "${other##*/}"; }
    break
  done
  exit 0
fi
list_before() { tr '\0' '\n' <"$1" | sed -n '/^before$/{n;p;}'; }
is_same() {
  case $1 in
    file) [ -f "$3" ] && [ ! -L "$3" ] && cmp -s -- "$2" "$3" ;;
    link) [ -L "$3" ] && [ "$(readlink -- "$2")" = "$(readlink -- "$3")" ] ;;
    none) [ ! -e "$3" ] && [ ! -L "$3" ] ;;
    *) false ;;
  esac
}
( cd /var/lib/forge/applied && grep -Ho '"run":"[0-9]\{8\}T[0-9]\{6\}-[0-9a-z]*"' -- *.json ) 2>/dev/null |
  while IFS= read -r line; do printf 'recorded\0%s\0' "$line"; done
[ ! -f ./undone ] || printf 'settled\0%s\0' "$(cat ./undone)"
nl='
'
own=$nl
for json in *.json; do
  [ -f "$json" ] || continue
  n=${json%.json}
  printf 'group\0%s\0json\0%s\0' "$n" "$(cat "./$json")"
  [ ! -f "./$n.before" ] || cat "./$n.before"
  [ ! -f "./$n.after" ] || cat "./$n.after"
  [ ! -f "./$n.after" ] || printf 'ended\0yes\0'
  set --
  at=0
  while IFS= read -r path; do
    # A group without paths has one empty line here.
    [ -n "$path" ] || continue
    state=${path%% *} path=${path#* } copy=./$n-$at
    at=$((at + 1))
    own=$own$path$nl
    is_same "$state" "$copy" "$path" && printf 'same\0%s\0' "$path"
    [ ! -e "$path" ] && [ ! -L "$path" ] || set -- "$@" "$path"
  done <<EOF
$(list_before "./$n.before")
EOF
  [ $# = 0 ] || stat --printf='now\0%.Z %f %u %g %s %.Y %n\0' -- "$@" 2>/dev/null
done
seen=
for other in ../*/; do
  other=${other#../} other=${other%/}
  if [ "$other" = "$run" ]; then seen=yes; continue; fi
  [ -n "$seen" ] || continue
  for json in "../$other"/*.json; do
    [ ! -f "$json" ] || printf 'later\0%s\0' "$(cat "$json")"
  done
  [ ! -f "../$other/undone" ] || printf 'undone\0%s\0' "$(cat "../$other/undone")"
  for states in "../$other"/*.before; do
    [ -f "$states" ] || continue
    at=0
    while IFS= read -r path; do
      [ -n "$path" ] || continue
      state=${path%% *} path=${path#* } copy=${states%.before}-$at
      at=$((at + 1))
      case $own in *"$nl$path$nl"*) ;; *) continue ;; esac
      was= back=moved
      case $state in file|link) was=$(stat -c '%.Z %f %u %g %s %.Y' -- "$copy" 2>/dev/null) || continue ;; esac
      if is_same "$state" "$copy" "$path"; then
        [ "$state" != none ] && [ "$(stat -c '%f %u %g' -- "$copy")" != "$(stat -c '%f %u %g' -- "$path")" ] || back=back
      fi
      printf 'found\0%s %s %s%s\0' "$state" "$back" "${was:+$was }" "$path"
    done <<EOF
$(list_before "$states")
EOF
  done
done
exit 0
"#;

/// A step of a run whose change was undone, and the run of the undo.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UndoneStep {
    /// The ID of the run.
    pub run: String,
    /// Its step.
    pub step: StepId,
    /// The ID of the run that undid the change and proved it.
    pub by: String,
}

impl UndoneStep {
    /// Parses the marks of a run, one JSON object per line. A line that was cut off says nothing.
    pub fn parse_lines(text: &str) -> Vec<UndoneStep> {
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Formats marks for [`parse_lines`](Self::parse_lines).
    pub fn format_lines(undone: &[UndoneStep]) -> String {
        // Serialization of a struct of text cannot fail.
        undone.iter().map(|mark| serde_json::to_string(mark).unwrap_or_default() + "\n").collect()
    }
}

/// Returns the script that marks steps of a run as undone. The run may not be kept any longer.
pub fn build_undone_script(undone: &[UndoneStep]) -> ShellFragment {
    let Some(first) = undone.first() else { return ShellFragment::new() };
    let folder = UndoGroup::folder(&first.run);
    let file = format!("{folder}/undone");
    ShellFragment::new()
        .code("if [ -d")
        .word(folder)
        .code(" ]; then\n")
        .print_bytes(UndoneStep::format_lines(undone).as_bytes())
        .code(" >>")
        .word(&file)
        .code(" && sync --")
        .word(&file)
        .code(" || exit 1\nfi\n")
}

/// Returns the script that writes records as they were before a run, and removes those that did not exist.
pub fn build_former_records_script(cluster: &str, records: &[FormerRecord]) -> ShellFragment {
    let folder = super::record::APPLIED_DIR;
    let new = format!("{folder}/.new");
    let start = ShellFragment::new().code("[ -d").word(&new).code(" ] || mkdir").word(&new).code(" || exit 1\n");
    records.iter().fold(start, |script, record| {
        let name = record.step.record_name(cluster);
        let path = format!("{folder}/{name}");
        match &record.body {
            None => script.code("rm -f --").word(path).code(" || exit 1\n"),
            Some(body) => {
                let staged = format!("{new}/{name}");
                script
                    .print_bytes(body.to_string().as_bytes())
                    .code(" >")
                    .word(&staged)
                    .code(" && sync --")
                    .word(&staged)
                    .code(" && mv -f --")
                    .word(&staged)
                    .word(path)
                    .code(" || exit 1\n")
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use secrecy::ExposeSecret;

    /// Runs the script before the change of a path, with the file of former states on a full disk.
    fn keep_on_full_disk() -> String {
        let dir = tempfile::tempdir().unwrap();
        let step = UndoStep {
            step: StepId::new("r", "s"),
            kind: "file".into(),
            title: "/none".into(),
            effect: UndoEffect::restore_paths(["/none"]),
            secret: false,
            restart_on: Vec::new(),
            guard_s: None,
            records: Vec::new(),
        };
        let group = UndoGroup::new("lab", "r1", vec![step]);
        let script = group.build_scripts(1, UndoRetention::default()).before.render(&SecretStore::default()).unwrap();
        let root = dir.path().to_str().unwrap();
        std::fs::create_dir_all(dir.path().join("undo/r1")).unwrap();
        std::os::unix::fs::symlink("/dev/full", dir.path().join("undo/r1/1.before")).unwrap();
        let text = script.expose_secret().replace("/var/lib/forge", root);
        let output = std::process::Command::new("sh").arg("-c").arg(text).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8_lossy(&output.stderr).replace(root, "/var/lib/forge")
    }

    #[test]
    fn full_disk_is_named_with_the_journal() {
        let expected = "cat: write error: No space left on device\nforge: cannot keep the state before the change: cannot \
                        write /var/lib/forge/undo/r1/1.before\n";
        assert_eq!(keep_on_full_disk(), expected);
    }
}
