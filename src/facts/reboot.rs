//! `reboot`: whether packages ask for a reboot.

use super::read::done;
use super::{Fact, Shape};
use crate::model::Value;
use crate::probe::{FactSnippet, Output, Unknown};
use serde_json::json;

/// The mark is left by hooks that not every host has: without them its absence tells nothing.
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
    doc: "Whether installed packages ask for a reboot, from `/run/reboot-required`. Unknown where no mark stands \
          and nothing on the host would leave one.",
    shape: Shape::Map,
    fields: &[
        ("required", "whether a reboot is asked for"),
        ("packages", "the packages that ask for it, sorted; empty where the mark names none"),
    ],
    reads: &["/run/reboot-required", "/run/reboot-required.pkgs"],
    snippet: FactSnippet { name: "reboot", snippet: SNIPPET, timeout_s: 5, device: false, quick: true },
    parse,
};

fn parse(output: &Output) -> Result<Value, Unknown> {
    let mut lines = done(output)?.lines().map(str::trim).filter(|line| !line.is_empty());
    match lines.next() {
        Some("required") => {
            let mut packages: Vec<&str> = lines.collect();
            packages.sort_unstable();
            packages.dedup();
            Ok(json!({ "required": true, "packages": packages }))
        }
        Some("clear") => Ok(json!({ "required": false, "packages": [] })),
        _ => Err(Unknown::new("nothing on the host marks that a reboot is needed")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::read::testing::{parsed, why};

    #[test]
    fn the_mark_names_its_packages_once() {
        // origin: source, update-notifier's notify-reboot-required
        let text = "required\nlinux-image-5.15.0-130-generic\nlinux-base\nlinux-base\n";
        let expected = json!({"required": true, "packages": ["linux-base", "linux-image-5.15.0-130-generic"]});
        assert_eq!(parsed(&FACT, text), Ok(expected));
        assert_eq!(parsed(&FACT, "clear\n"), Ok(json!({"required": false, "packages": []})));
    }

    #[test]
    fn no_mark_on_a_host_that_leaves_none_is_unknown() {
        assert_eq!(why(&FACT, 0, "silent\n"), "nothing on the host marks that a reboot is needed");
    }
}
