//! Mounts at or below paths that a step removes: the removal would reach into another file system, and fails.

use crate::model::{BlockClass, StepVerdict};
use crate::probe::{CheckProbe, Observation, Probe, UnansweredReason};
use crate::resource::shared::support::output;
use crate::resource::{Assessment, AssessmentContext, EarlierStepEffects, ProvidedItem};

/// Time limit in seconds. A directory above a path may be on a file system whose server does not answer.
const MOUNTS_LIMIT: u64 = 10;

/// Prints `PATH<tab>MOUNT POINT` for each mount at or below one of the paths, one per line in `$FORGE_PATHS`. The
/// kernel names mount points without links, so the directory of each path is resolved; the path itself is not, as a
/// removal does not follow links either.
const LIST_MOUNTS: &str = r#"set -f
IFS='
'
for path in $FORGE_PATHS; do
  above=$(readlink -e -- "${path%/*}/") || continue
  real=${above%/}/${path##*/}
  [ ! -L "$real" ] || continue
  while IFS=' ' read -r _ _ _ _ at _; do
    case $at in *\\*) at=$(printf '%b' "$at") ;; esac
    case $at in "$real"|"$real"/*) printf '%s\t%s\n' "$path" "$at" ;; esac
  done </proc/self/mountinfo
done
:"#;

/// Lists the mounts at or below the home of `$FORGE_USER`, which only the host knows.
const FIND_HOME: &str = r#"entry=$(getent passwd -- "$FORGE_USER") || exit
entry=${entry%:*}
FORGE_PATHS=${entry##*:}
while [ "${FORGE_PATHS%/}" != "$FORGE_PATHS" ]; do FORGE_PATHS=${FORGE_PATHS%/}; done
"#;

/// Returns the probe of mounts at or below `paths`.
pub(in crate::resource) fn mounts_probe(paths: &[String]) -> Probe {
    let env = ("FORGE_PATHS".to_owned(), paths.join("\n"));
    build_mounts_probe("mounts in removed paths", LIST_MOUNTS.to_owned(), env)
}

/// Returns the probe of mounts at or below the home of an account.
pub(in crate::resource) fn home_mounts_probe(user: &str) -> Probe {
    let env = ("FORGE_USER".to_owned(), user.to_owned());
    build_mounts_probe("mounts in a removed home", format!("{FIND_HOME}{LIST_MOUNTS}"), env)
}

fn build_mounts_probe(id: &str, script: String, env: (String, String)) -> Probe {
    Probe::Check(Box::new(CheckProbe {
        id: id.to_owned(),
        script,
        user: None,
        cwd: None,
        env: vec![env],
        timeout_s: Some(MOUNTS_LIMIT),
    }))
}

/// Blocks a removal of `paths` that a mount forbids. Requires their [`mounts_probe`].
pub(in crate::resource) fn refuse_mounted_paths<D>(
    judgement: Assessment<D>,
    paths: &[String],
    seen: &Observation,
    cx: &AssessmentContext<'_>,
) -> Assessment<D> {
    refuse_mounts(judgement, &mounts_probe(paths), seen, cx)
}

/// Blocks a removal that one of the mounts of `probe` forbids.
pub(in crate::resource) fn refuse_mounts<D>(
    judgement: Assessment<D>,
    probe: &Probe,
    seen: &Observation,
    cx: &AssessmentContext<'_>,
) -> Assessment<D> {
    if judgement.verdict != StepVerdict::Change {
        return judgement;
    }
    match list_mounts(probe, seen) {
        Err(unknown) => Assessment { basis: judgement.basis, ..Assessment::unknown(&unknown) },
        Ok(mounts) => match mounts.iter().find(|mount| !may_be_unmounted(&mount.at, cx.predicted)) {
            Some(mount) => mount.block(judgement),
            None if mounts.is_empty() => judgement,
            None => judgement.mark_predicted(),
        },
    }
}

struct MountedPath {
    /// The path that the step removes.
    path: String,
    /// The mount point.
    at: String,
}

impl MountedPath {
    fn block<D>(&self, judgement: Assessment<D>) -> Assessment<D> {
        let reason = match self.path == self.at {
            true => format!("`{}` is a mount point", self.path),
            false => format!("a file system is mounted at `{}`, in `{}`", self.at, self.path),
        };
        Assessment::blocked(BlockClass::Host, format!("{reason}: nothing is removed"), judgement.basis)
            .host_hint(format!("unmount `{}` first", self.at))
    }
}

fn list_mounts(probe: &Probe, seen: &Observation) -> Result<Vec<MountedPath>, UnansweredReason> {
    let listed = output(seen, probe)?;
    let failed = || {
        let why = format!("the mounts of the host could not be read (exit status {})", listed.status);
        UnansweredReason::new(why).with_message(listed.stderr.clone())
    };
    if listed.status != 0 || listed.truncated {
        return Err(failed());
    }
    let parse = |line: &str| {
        let (path, at) = line.split_once('\t')?;
        Some(MountedPath { path: path.to_owned(), at: at.to_owned() })
    };
    listed.stdout.raw().lines().map(|line| parse(line).ok_or_else(failed)).collect()
}

/// Reports whether an earlier step may unmount it: a step of that mount, a package or a command.
fn may_be_unmounted(at: &str, predicted: Option<&EarlierStepEffects>) -> bool {
    predicted
        .is_some_and(|earlier| earlier.is_opaque || earlier.redirected.contains_key(&ProvidedItem::Path(at.to_owned())))
}
