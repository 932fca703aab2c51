//! A recipe's own checks: each on its own, as data to `sh -c`, with its own limit and cap.

use super::section::{End, Raw, Section};
use super::{Observation, Output, Probe, Reading, Unknown};
use crate::model::Untrusted;
use crate::script::Fragment;

/// Bytes of stdout that are kept of a check.
pub(crate) const CAP: u64 = 262_144;

/// Bytes of a check's text at most: the kernel takes 131,072 as one argument, and secrets are put in later.
pub(crate) const SCRIPT_CAP: usize = 98_304;

/// `forge_env KEY VALUE` …, then `forge_check USER CWD SCRIPT`. Text and values reach the check through its
/// environment, never through an argument. The marks on descriptor 5 say that the check's own code was
/// reached, and that it ended by itself; the code gets neither the descriptor nor the token. `setpriv`
/// rather than `runuser`: a login session would be written to the host's logs.
const SNIPPET: &str = r#"forge_env() {
case $1 in ''|[0-9]*|*[!A-Za-z0-9_]*) return ;; esac
eval "$1=\$2; export $1"
}
forge_check() {
u=$1 d=$2
export FORGE_C="$3"
set -- sh -c 'cd -- "$1" && shift && printf :began: >&5 && exec 5>&- || exit
eval "unset FORGE_C
$FORGE_C"' sh "$d"
if [ -n "$u" ] && [ "$u" != "$(id -un)" ]; then
need setpriv; need getent
p=$(getent passwd -- "$u") || { printf 'forge-no-user\n' >&2; exit 1; }
h=${p%:*}
set -- setpriv --reuid="$u" --regid="$(id -g -- "$u")" --init-groups \
  env HOME="${h##*:}" SHELL="${p##*:}" USER="$u" LOGNAME="$u" "$@"
fi
"$@"
r=$?
printf :done: >&5
exit "$r"
}
"#;

/// Builds the section of a check; `None` for other probes. `limit_s` holds for one that names no limit.
pub(crate) fn section(probe: &Probe, limit_s: u64) -> Option<Section> {
    let Probe::Check { script, user, cwd, env, timeout_s, .. } = probe else { return None };
    let mut section = Section::new("the check", vec![probe.clone()], read);
    let set = |body: Fragment, (key, value): &(String, String)| body.code("forge_env").word(key).word(value).code("\n");
    let body = env.iter().fold(Fragment::new().code(SNIPPET), set);
    let body = body.code("forge_check").word(user.as_deref().unwrap_or(""));
    section.body = section.body.then(body.word(cwd.as_deref().unwrap_or("/")).word(script));
    section.timeout_s = timeout_s.unwrap_or(limit_s).max(1);
    section.cap = CAP;
    section.foreign = true;
    Some(section)
}

fn read(section: &Section, raw: &Raw, out: &mut Observation) {
    for probe in &section.probes {
        out.insert(probe.clone(), answer(section, raw, probe).map(Reading::Output));
    }
}

fn answer(section: &Section, raw: &Raw, probe: &Probe) -> Result<Output, Unknown> {
    match raw.end {
        End::Exited(status) if raw.began => Ok(output(raw, status)),
        End::TimedOut => Err(raw.lack(section)),
        End::Exited(_) => Err(not_begun(section, raw, probe)),
    }
}

fn not_begun(section: &Section, raw: &Raw, probe: &Probe) -> Unknown {
    let said = String::from_utf8_lossy(&raw.stderr);
    match probe {
        _ if said.contains("forge-missing ") => raw.lack(section),
        Probe::Check { user: Some(user), .. } if said.contains("forge-no-user") => {
            Unknown::new(format!("user `{user}` does not exist"))
        }
        _ => Unknown::new("the check could not be started").said(said.trim_end()),
    }
}

/// Builds the output of a command that ended with `status`.
pub(crate) fn output(raw: &Raw, status: i32) -> Output {
    Output {
        status,
        stdout: Untrusted::from_bytes(&raw.stdout),
        stderr: Untrusted::from_bytes(&raw.stderr),
        truncated: raw.truncated,
    }
}

#[cfg(test)]
mod tests;
