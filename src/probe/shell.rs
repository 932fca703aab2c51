//! The shell around sections: runs each section under its limits, and prints its frame.

use super::section::{ProbeSection, SECTION_PRELUDE, STDERR_CAP};
use crate::script::{ScriptToken, ShellFragment, ShellScript};
use std::time::Duration;

/// Number of sections that run concurrently. The output of earlier ones waits in a pipe, never in a file.
const LANES: usize = 4;

/// Seconds beyond its own limit after which a section is certainly over: TERM, two seconds, KILL, and two more for
/// readers whose pipe a runaway process still holds.
const GRACE_S: u64 = 4;

/// Seconds for the shell itself.
const SLACK_S: u64 = 15;

/// `forge_own NUMBER LIMIT CAP CODE` and `forge_foreign …` print token, number, length, payload and a line break. The
/// payload is base64 of stdout, with `:STATUS:` somewhere inside (a colon is not a base64 character, so the position
/// does not matter), then `!`, and stderr as it is. Descriptor 5 carries marks past the code's own stdout and stderr.
///
/// Processes dominate the cost of an observation, about a millisecond each, so there are as few as possible. Status and
/// stderr of forge's own code follow its stdout, after a line with the token, and are encoded together with it; output
/// beyond the cap is cut off after the code has ended. `forge_first` runs the first section of all: nothing else prints
/// meanwhile, so the output goes straight to the controller, between two lines, and the controller applies the cap. The
/// shell itself prints the lines: the first lane's at once, those of the others when the previous lane is done, which
/// closes the pipe between them. Lines go to descriptor 3; no recipe's code gets it, because a leftover process would
/// hold it open.
///
/// Output of recipes' code is read to its end, so that the exit status is its own and not SIGPIPE's. `tail` does that in
/// one process, and keeps the last bytes: the cap and one. It prints stderr when all writers have ended, the encoder of
/// stdout among them, so stderr follows it. NUL bytes in stderr are dropped; an `x` after it preserves the line breaks
/// before. Code that itself ends with a status of `timeout` before its limit is marked as done. The readers have a limit
/// too, since a process that left the group keeps the pipes open after the kill. The limit ends the readers; the encoder
/// and printer continue, and `:late:` marks the output as incomplete. dash reports the end of a reader to the other one,
/// which may have ended too: hence the trap for SIGPIPE.
///
/// A section's text is passed in the environment, which only its own account can read: all users of the host can see
/// arguments, and a check may contain a secret.
const RUNNER: &str = r#"forge_line() {
set -- "$FORGE_T $1 ${#p} $p"
if [ "$FORGE_L" = 0 ]; then printf '%s\n' "$1" >&3; else FORGE_O="$FORGE_O$1
"; fi
}
forge_rest() { read -r p; printf %s "$FORGE_O" >&3; }
forge_first() {
printf '%s %s open\n' "$FORGE_T" "$1" >&3
e=$(FORGE_T=$FORGE_T FORGE_N=0 FORGE_S=$4 timeout -k 2 "$2" sh -c 's=$FORGE_S; unset FORGE_S; eval "$s"' </dev/null 2>&1 >&3 3>&-)
printf '\n%s !%s\n%s\n%s shut\n' "$FORGE_T" "$?" "$e" "$FORGE_T" >&3
}
forge_own() {
p=$(exec 3>&-
{ e=$(FORGE_T=$FORGE_T FORGE_N=0 FORGE_S=$4 timeout -k 2 "$2" sh -c 's=$FORGE_S; unset FORGE_S; eval "$s"' </dev/null 2>&1 >&6 6>&-)
printf '\n%s !%s\n%s' "$FORGE_T" "$?" "$e"; } 6>&1 | base64 -w0)
p=$p!
[ "${#p}" -le "$3" ] || p=$(printf ":0::over:%.$3s!" "${p%!*}")
forge_line "$1"
}
forge_foreign() {
p=$(FORGE_S=$4 timeout "$(($2 + 4))" sh -c 'trap : TERM
exec 5>&1
now() { read -r up up_rest </proc/uptime && up=$((${up%.*} * 100 + 1${up#*.} - 100)); }
code() {
trap : TERM
now || up=; began=$up
timeout -k 2 "$1" sh -c "s=\$FORGE_S; unset FORGE_S; eval \"\$s\"" </dev/null
s=$?
case $s in 124|137) [ -z "$began" ] || ! now || [ "$((up - began))" -ge "$(($1 * 100))" ] || s=$s::done ;; esac
printf ":%s:" "$s" >&5
}
{ trap : TERM PIPE
code "$1" | tail -c "$2" | { trap "" TERM; exec base64 -w0 >&5; }
printf ! >&5
} 2>&1 | tail -c 16386
printf x' sh "$2" "$3" </dev/null 2>/dev/null 3>&-)
[ "$?" != 124 ] || p=":124::late:$p"
p=${p%x}
forge_line "$1"
}
printf '\n'
for t in timeout tail base64; do
command -v "$t" >/dev/null 2>&1 || { printf '%s lacks %s\n%s end 0\n' "$FORGE_T" "$t" "$FORGE_T"; return 0; }
done
"#;

/// Builds the script that runs quick `sections`. Each lane costs processes, and two sections that run one after the other
/// are as quick as a lane takes to start.
pub(crate) fn build_script(sections: &[ProbeSection], token: ScriptToken) -> ShellScript {
    let lanes = if sections.len() <= 2 { sections.len().min(1) } else { LANES.min(sections.len()) };
    build_script_in_lanes(sections, token, lanes)
}

/// Builds the script that runs `sections` of devices, which take seconds or hang: none waits for another one.
pub(crate) fn build_device_script(sections: &[ProbeSection], token: ScriptToken) -> ShellScript {
    build_script_in_lanes(sections, token, LANES.min(sections.len()))
}

fn build_script_in_lanes(sections: &[ProbeSection], token: ScriptToken, lanes: usize) -> ShellScript {
    const { assert!(STDERR_CAP == 16_384, "the runner spells it out, plus two") };
    let mut body = ShellFragment::new().code(RUNNER).code("{ :\n");
    for lane in 0..lanes {
        body = body.code(if lane == 0 { "{\nFORGE_L=0\n" } else { " | {\nFORGE_L=1 FORGE_O=\n" });
        for (number, section) in sections.iter().enumerate().skip(lane).step_by(lanes) {
            body = append_section(body, number, section);
        }
        body = body.code(if lane == 0 { "}" } else { "forge_rest\n}" });
    }
    body = body.code("\n} 3>&1\nprintf '%s end %s\\n' \"$FORGE_T\"").number(sections.len() as u64);
    ShellScript { body, token, limit: script_limit(sections, lanes) }
}

fn append_section(body: ShellFragment, number: usize, section: &ProbeSection) -> ShellFragment {
    let encoded = (section.cap + STDERR_CAP).div_ceil(3) * 4 + 64;
    let runner = match (section.foreign, number) {
        (true, _) => "forge_foreign",
        (false, 0) => "forge_first",
        (false, _) => "forge_own",
    };
    body.code(runner)
        .number(number as u64)
        .number(section.timeout_s)
        .number(if section.foreign { section.cap + 1 } else { encoded })
        .nested_word(ShellFragment::new().code(SECTION_PRELUDE).append_fragment(section.body.clone()))
        .code("\n")
}

/// Sections of a lane run one after the other; the slowest lane determines the limit. Parts with a time limit of their
/// own are not stopped with their section.
fn script_limit(sections: &[ProbeSection], lanes: usize) -> Duration {
    let waits = |s: &ProbeSection| s.parts.iter().filter(|part| part.waits).map(|part| part.timeout_s).sum::<u64>();
    let one = |s: &ProbeSection| s.timeout_s + waits(s) + GRACE_S;
    let lane = |lane: usize| -> u64 { sections.iter().skip(lane).step_by(lanes).map(one).sum() };
    Duration::from_secs((0..lanes).map(lane).max().unwrap_or(0) + SLACK_S)
}
