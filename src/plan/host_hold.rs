//! Hosts that apply leaves alone because a person asked for it (`forge hold`).

use crate::model::UntrustedText;
use crate::probe::HoldMark;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The file in which a host records that it is on hold.
pub const HOLD_MARK: &str = "/var/lib/forge/hold.json";

/// How to continue with a host that is on hold.
pub const RELEASE_HINT: &str = "`forge release` ends the hold";

/// Why a host is on hold. Its mark on the host is this value as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct HostHold {
    /// The reason, as the user gave it.
    pub why: UntrustedText,
    /// Who asked for it: `user@controller`.
    pub by: UntrustedText,
    /// When it began: RFC 3339, UTC, by the controller's clock.
    pub since: UntrustedText,
    /// When it ends: RFC 3339, UTC. Compared with the host's clock. Absent if it ends by `forge release` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<UntrustedText>,
}

impl HostHold {
    /// Reads the mark of a host. Returns nothing if the hold is over. A mark that cannot be read is a hold without an end.
    pub fn from_mark(mark: &HoldMark) -> Option<Self> {
        let unread = || Self {
            why: format!("`{HOLD_MARK}` cannot be read").into(),
            by: "an unknown user".into(),
            since: "an unknown time".into(),
            until: None,
        };
        let hold: Self = serde_json::from_str(mark.text.raw()).unwrap_or_else(|_| unread());
        (!hold.is_over(mark.now)).then_some(hold)
    }

    /// Reports whether it has ended at `now`, in seconds since 1970. It has not if one of both is not known.
    fn is_over(&self, now: Option<i64>) -> bool {
        let until = self.until.as_ref().and_then(|until| until.raw().parse::<jiff::Timestamp>().ok());
        until.zip(now).is_some_and(|(until, now)| until.as_second() <= now)
    }

    /// Describes it as a lowercase fragment: `on hold by a@b since 2026-11-25T12:00:00Z: the rack is moved`.
    pub fn describe(&self) -> String {
        let until = self.until.as_ref().map(|until| format!(" until {}", until.raw())).unwrap_or_default();
        format!("on hold by {} since {}{until}: {}", self.by.raw(), self.since.raw(), self.why.raw())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(text: &str, now: Option<i64>) -> HoldMark {
        HoldMark { text: text.into(), now }
    }

    #[test]
    fn hold_ends_at_its_time_by_the_clock_of_the_host() {
        let text = r#"{"why":"moved","by":"a@b","since":"2026-11-25T12:00:00Z","until":"2026-11-26T00:00:00Z"}"#;
        let end = 1_795_651_200;
        let held = HostHold::from_mark(&mark(text, Some(end - 1))).expect("on hold");
        assert_eq!(held.describe(), "on hold by a@b since 2026-11-25T12:00:00Z until 2026-11-26T00:00:00Z: moved");
        assert_eq!(HostHold::from_mark(&mark(text, Some(end))), None);
        assert!(HostHold::from_mark(&mark(text, None)).is_some(), "without a clock, the hold goes on");
    }

    #[test]
    fn unreadable_mark_is_a_hold() {
        let held = HostHold::from_mark(&mark("{", Some(0))).expect("on hold");
        assert_eq!(
            held.describe(),
            "on hold by an unknown user since an unknown time: `/var/lib/forge/hold.json` cannot be read"
        );
    }
}
