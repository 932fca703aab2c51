//! `secure_boot`: whether unsigned kernel modules can be loaded.

use super::comparison_rules::compare_value;
use super::fact::{Fact, FactShape};
use super::snippet_output::{find_field, require_success, unknown_part};
use crate::model::Value;
use crate::probe::{FactSnippet, ProbeOutput, UnansweredReason};
use serde_json::json;

/// Four bytes of attributes precede the variable's single byte.
const SNIPPET: &str = r#"v=/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c
if [ ! -d /sys/firmware ]; then printf 'boot\thidden\n'
elif [ ! -d /sys/firmware/efi ]; then printf 'boot\tlegacy\n'
elif [ -r "$v" ]; then printf 'boot\t%s\n' "$(od -An -tu1 -j4 -N1 "$v" 2>/dev/null)"
elif command -v mokutil >/dev/null 2>&1; then printf 'mokutil\t%s\n' "$(LC_ALL=C mokutil --sb-state 2>&1)"
else printf 'boot\tunreadable\n'; fi
[ ! -r /sys/kernel/security/lockdown ] || printf 'lockdown\t%s\n' "$(cat /sys/kernel/security/lockdown)""#;

pub(super) const FACT: Fact = Fact {
    name: "secure_boot",
    doc: "Whether the firmware and the kernel refuse unsigned modules, from the EFI variable, else `mokutil`, and `/sys/kernel/security/lockdown`.",
    shape: FactShape::Map,
    fields: &[
        ("enabled", "whether Secure Boot is enabled; false on a host that did not boot by EFI"),
        ("lockdown", "`none`, `integrity`, `confidentiality`, null if the kernel has no lockdown"),
    ],
    reads: &[
        "/sys/firmware/efi",
        "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c",
        "mokutil --sb-state",
        "/sys/kernel/security/lockdown",
    ],
    alike: &[compare_value("enabled"), compare_value("lockdown")],
    snippet: FactSnippet {
        name: "secure_boot",
        snippet: SNIPPET,
        timeout_s: 10,
        device: false,
        quick: true,
        builtin: false,
    },
    parse,
};

fn parse(output: &ProbeOutput) -> Result<Value, UnansweredReason> {
    let text = require_success(output)?;
    let enabled = match (find_field(text, "boot").map(str::trim), find_field(text, "mokutil")) {
        (Some("legacy" | "0"), _) => false.into(),
        (Some("1"), _) => true.into(),
        (Some("hidden"), _) => unknown_part("`/sys/firmware` does not exist"),
        (Some("unreadable"), _) => unknown_part("the firmware's variable cannot be read and `mokutil` is missing"),
        (Some(_), _) => unknown_part("the firmware's variable has an unexpected format"),
        (None, Some(said)) if said.contains("SecureBoot enabled") => true.into(),
        (None, Some(said)) if said.contains("SecureBoot disabled") || said.contains("not supported") => false.into(),
        (None, _) => unknown_part("`mokutil --sb-state` has an unexpected format"),
    };
    let lockdown = find_field(text, "lockdown").map(|line| bracketed_word(line).ok_or("no word is in brackets"));
    Ok(json!({
        "enabled": enabled,
        "lockdown": lockdown.map(|word| word.map_or_else(unknown_part, Value::from)),
    }))
}

/// Returns the bracketed word of a line of choices.
pub(super) fn bracketed_word(line: &str) -> Option<&str> {
    line.split_once('[')?.1.split_once(']').map(|(word, _)| word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::snippet_output::testing::parse_stdout;

    #[test]
    fn state_comes_from_firmware_variable_or_mokutil() {
        // origin: source, mokutil.c and the kernel's security/lockdown
        let enabled = |text: &str| parse_stdout(&FACT, text).expect("is known")["enabled"].clone();
        assert_eq!(
            (enabled("boot\t   1\n"), enabled("boot\t   0\n"), enabled("boot\tlegacy\n")),
            (json!(true), json!(false), json!(false))
        );
        assert_eq!(enabled("mokutil\tSecureBoot enabled\n"), json!(true));
        assert_eq!(enabled("mokutil\tEFI variables are not supported on this system\n"), json!(false));
        assert_eq!(
            enabled("boot\tunreadable\n")["unknown"],
            "the firmware's variable cannot be read and `mokutil` is missing"
        );
        assert_eq!(enabled("boot\t\n")["unknown"], "the firmware's variable has an unexpected format");
        let locked = parse_stdout(&FACT, "boot\tlegacy\nlockdown\tnone [integrity] confidentiality\n");
        assert_eq!(locked, Ok(json!({"enabled": false, "lockdown": "integrity"})));
    }
}
