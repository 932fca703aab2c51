//! `reboot`: whether packages require a reboot.

use super::comparison_rules::compare_value;
use super::fact::{Fact, FactShape};
use super::snippet_output::require_success;
use crate::model::Value;
use crate::probe::{FactSnippet, ProbeOutput, UnansweredReason};
use serde_json::json;

/// Hooks that not every host has create the marker file: without them its absence means nothing.
const SNIPPET: &str = r#"for d in /run /var/run; do
[ -e "$d/reboot-required" ] || continue
printf 'required\n'
[ ! -r "$d/reboot-required.pkgs" ] || cat "$d/reboot-required.pkgs"
exit 0
done
for h in /usr/share/update-notifier/notify-reboot-required /etc/kernel/postinst.d/unattended-upgrades \
  /etc/kernel/postinst.d/update-notifier; do
[ ! -e "$h" ] || { printf 'clear\n'; exit 0; }
done
printf 'silent\n'"#;

pub(super) const FACT: Fact = Fact {
    name: "reboot",
    doc: "Whether installed packages require a reboot, from `/run/reboot-required`. Unknown if the file does not exist \
          and no hook on the host would create it.",
    shape: FactShape::Map,
    fields: &[
        ("required", "whether a reboot is required"),
        ("packages", "the packages that require it, sorted; empty if none are listed"),
    ],
    reads: &["/run/reboot-required", "/run/reboot-required.pkgs"],
    alike: &[compare_value("required")],
    snippet: FactSnippet { name: "reboot", snippet: SNIPPET, timeout_s: 5, device: false, quick: true, builtin: false },
    parse,
};

fn parse(output: &ProbeOutput) -> Result<Value, UnansweredReason> {
    let mut lines = require_success(output)?.lines().map(str::trim).filter(|line| !line.is_empty());
    match lines.next() {
        Some("required") => {
            let mut packages: Vec<&str> = lines.collect();
            packages.sort_unstable();
            packages.dedup();
            Ok(json!({ "required": true, "packages": packages }))
        }
        Some("clear") => Ok(json!({ "required": false, "packages": [] })),
        _ => Err(UnansweredReason::new("no hook on the host records that a reboot is required")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::snippet_output::testing::{expect_unknown, parse_stdout};

    #[test]
    fn packages_that_require_a_reboot_are_deduplicated() {
        // origin: source, update-notifier's notify-reboot-required
        let text = "required\nlinux-image-5.15.0-130-generic\nlinux-base\nlinux-base\n";
        let expected = json!({"required": true, "packages": ["linux-base", "linux-image-5.15.0-130-generic"]});
        assert_eq!(parse_stdout(&FACT, text), Ok(expected));
        assert_eq!(parse_stdout(&FACT, "clear\n"), Ok(json!({"required": false, "packages": []})));
    }

    #[test]
    fn host_without_reboot_hook_is_unknown() {
        assert_eq!(expect_unknown(&FACT, 0, "silent\n"), "no hook on the host records that a reboot is required");
    }
}
