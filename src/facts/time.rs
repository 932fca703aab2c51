//! `time`: whether the clock is synchronized.

use super::comparison_rules::compare_value;
use super::fact::{Fact, FactShape};
use super::snippet_output::find_field;
use crate::model::Value;
use crate::probe::{FactSnippet, ProbeOutput, UnansweredReason};
use serde_json::json;

/// `timedatectl` would start a service and write to the journal, but a plan writes nothing. It reports the kernel's own
/// estimate of the clock's error, which is read here by the same system call with no mode set.
const SNIPPET: &str = r#"m=
if command -v perl >/dev/null 2>&1; then
m=$(perl -e 'my $n = {x86_64 => 159, aarch64 => 171}->{$ARGV[0]} or exit 3;
my $b = "\0" x 256; exit 4 if syscall($n, $b) < 0; print unpack("x24 q", $b)' "$(uname -m)" 2>/dev/null) || m=
fi
[ -z "$m" ] || { printf 'maxerror\t%s\n' "$m"; exit 0; }
need chronyc
l=$(chronyc -n -h 127.0.0.1 tracking) || exit
printf '%s\n' "$l" | sed -n 's/^Leap status *: */leap\t/p'"#;

/// Possible error in microseconds at which the kernel counts as not synchronized: the estimate has this value at boot
/// and grows towards it while no service corrects the clock.
const MAX_ERROR_US: u64 = 16_000_000;

pub(super) const FACT: Fact = Fact {
    name: "time",
    doc: "The clock, from the kernel's own estimate (`adjtimex`), else from `chronyc tracking`.",
    shape: FactShape::Map,
    fields: &[("synchronized", "whether a service keeps it synchronized; `timedatectl` calls it `NTPSynchronized`")],
    reads: &["adjtimex by perl", "chronyc -n -h 127.0.0.1 tracking"],
    alike: &[compare_value("synchronized")],
    snippet: FactSnippet { name: "time", snippet: SNIPPET, timeout_s: 10, device: false, quick: true, builtin: false },
    parse,
};

fn parse(output: &ProbeOutput) -> Result<Value, UnansweredReason> {
    let text = output.stdout.raw();
    let error = find_field(text, "maxerror").and_then(|us| us.trim().parse::<u64>().ok()).map(|us| us < MAX_ERROR_US);
    let leap = find_field(text, "leap").and_then(|leap| match leap.trim() {
        "Normal" | "Insert second" | "Delete second" => Some(true),
        "Not synchronised" => Some(false),
        _ => None,
    });
    match error.or(leap) {
        Some(synchronized) if output.status == 0 => Ok(json!({ "synchronized": synchronized })),
        _ => {
            Err(UnansweredReason::new("neither the kernel nor `chronyc` reports it")
                .with_message(output.stderr.clone()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::snippet_output::testing::{expect_unknown, parse_stdout};

    #[test]
    fn kernel_max_error_determines_synchronization() {
        // origin: field, Debian 12 without a time service
        assert_eq!(parse_stdout(&FACT, "maxerror\t16000000\n"), Ok(json!({"synchronized": false})));
        assert_eq!(parse_stdout(&FACT, "maxerror\t2500\n"), Ok(json!({"synchronized": true})));
    }

    #[test]
    fn chrony_leap_status_is_the_fallback() {
        // origin: source, chrony's client.c
        assert_eq!(parse_stdout(&FACT, "leap\tNormal\n"), Ok(json!({"synchronized": true})));
        assert_eq!(parse_stdout(&FACT, "leap\tNot synchronised\n"), Ok(json!({"synchronized": false})));
        assert_eq!(expect_unknown(&FACT, 0, "leap\tOdd\n"), "neither the kernel nor `chronyc` reports it");
        assert_eq!(expect_unknown(&FACT, 1, ""), "neither the kernel nor `chronyc` reports it");
    }
}
