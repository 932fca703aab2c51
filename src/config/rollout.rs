//! `rollout:` as it is meant: in which portions, when, and how far changes may disturb.

use super::Share;
use crate::diag::Span;
use crate::kube::Manner;
use std::fmt;

/// How long a host may take to come back from a reboot where nothing is declared: servers with much memory and
/// many devices test themselves for a quarter of an hour. Seconds.
pub const REBOOT_LIMIT_S: u64 = 30 * 60;

/// `rollout:`.
#[derive(Clone, Debug, PartialEq)]
pub struct Rollout {
    /// How many hosts receive all their changes first; `None` for no canary.
    pub canary: Option<Share>,
    /// How many hosts may fail before no new one begins; `None` for any number.
    pub max_failed: Option<Share>,
    /// How many hosts may be out of service at once.
    pub max_unavailable: Share,
    /// How many hosts may restart one service at once; `None` for any number.
    pub max_restarting: Option<Share>,
    /// Groups of which no two hosts may be out of service at once.
    pub quorum: Vec<(String, Span)>,
    pub reboot: Reboots,
    /// How long a host may take to come back. Seconds.
    pub reboot_timeout_s: u64,
    /// When windows may open, by the controller's clock; `None` for always.
    pub hours: Option<Hours>,
    /// How long a window waits for those who hold the host's devices; `None` for not at all. Seconds.
    pub busy_wait_s: Option<u64>,
    /// The group whose hosts are nodes of Slurm.
    pub slurm: Option<(String, Span)>,
    /// The group whose hosts are nodes of the Kubernetes cluster, and how they are drained.
    pub kubernetes: Option<NodeDrain>,
    pub span: Option<Span>,
}

impl Default for Rollout {
    /// A quarter of the hosts at once and no reboots: who wants more says so.
    fn default() -> Self {
        Self {
            canary: None,
            max_failed: None,
            max_unavailable: Share::Percent(25),
            max_restarting: None,
            quorum: Vec::new(),
            reboot: Reboots::default(),
            reboot_timeout_s: REBOOT_LIMIT_S,
            hours: None,
            busy_wait_s: None,
            slurm: None,
            kubernetes: None,
            span: None,
        }
    }
}

/// How nodes of the Kubernetes cluster are drained.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeDrain {
    /// The group whose hosts they are.
    pub group: (String, Span),
    /// How long pods may take to leave. Seconds.
    pub timeout_s: u64,
    /// How long a pod may take to end; `None` for as long as it says itself. Seconds.
    pub grace_s: Option<u64>,
    /// What may be deleted that does not come back elsewhere.
    pub manner: Manner,
    /// What a node must offer before it is given back; `None` where it is given back at once.
    pub returns: Option<Returns>,
}

/// What a node must offer before it takes pods again, beside being ready.
#[derive(Clone, Debug, PartialEq)]
pub struct Returns {
    /// By the name of the resource.
    pub offers: Vec<(String, Offer)>,
    /// How long it is waited for. Seconds.
    pub within_s: u64,
}

/// How much of a resource pods may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// At least so much.
    Count(i64),
    /// All that the node has of it, and some.
    Capacity,
}

impl Returns {
    /// Returns each offer for people: `nvidia.com/gpu 8`.
    pub fn told(&self) -> Vec<String> {
        let one = |(name, offer): &(String, Offer)| match offer {
            Offer::Count(count) => format!("{name} {count}"),
            Offer::Capacity => format!("{name} all of its capacity"),
        };
        self.offers.iter().map(one).collect()
    }
}

/// How long the pods of a node may take to leave where nothing is declared. Seconds.
pub const DRAIN_LIMIT_S: u64 = 10 * 60;

/// How long a node may take to offer what is declared where nothing else is. Seconds.
pub const RETURN_LIMIT_S: u64 = 10 * 60;

/// Whether hosts may reboot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reboots {
    /// Where the plan says so.
    Allow,
    /// What needs a reboot stays pending.
    #[default]
    Never,
}

impl Reboots {
    pub const ALL: [Self; 2] = [Self::Allow, Self::Never];

    pub fn name(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Never => "never",
        }
    }

    /// Returns the policy of that name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.name() == text)
    }
}

/// A span of the day, in minutes since midnight; one that ends before it begins goes over midnight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hours {
    from: u16,
    to: u16,
}

impl Hours {
    /// Reads `22:00-05:00`. The last minute is outside.
    pub fn parse(text: &str) -> Option<Self> {
        let (from, to) = text.split_once('-')?;
        let hours = Self { from: minute(from.trim())?, to: minute(to.trim())? };
        (hours.from != hours.to).then_some(hours)
    }

    /// Returns whether a minute of the day lies inside.
    pub fn holds(self, minute: u16) -> bool {
        match self.from < self.to {
            true => (self.from..self.to).contains(&minute),
            false => minute >= self.from || minute < self.to,
        }
    }
}

fn minute(text: &str) -> Option<u16> {
    let (hour, minute) = text.split_once(':')?;
    let digits = |text: &str| text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
    let (hour, minute) = (digits(hour).then_some(hour)?, digits(minute).then_some(minute)?);
    let (hour, minute) = (hour.parse::<u16>().ok()?, minute.parse::<u16>().ok()?);
    (hour < 24 && minute < 60).then_some(hour * 60 + minute)
}

impl fmt::Display for Hours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to } = self;
        write!(f, "{:02}:{:02}-{:02}:{:02}", from / 60, from % 60, to / 60, to % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_go_over_midnight() {
        let night = Hours::parse("22:00-05:00").unwrap();
        let at = |hour: u16, minute: u16| night.holds(hour * 60 + minute);
        assert_eq!(
            (at(21, 59), at(22, 0), at(23, 59), at(0, 0), at(4, 59), at(5, 0)),
            (false, true, true, true, true, false)
        );
        let noon = Hours::parse("11:30 - 12:30").unwrap();
        assert_eq!(
            (noon.holds(11 * 60 + 29), noon.holds(11 * 60 + 30), noon.holds(12 * 60 + 30)),
            (false, true, false)
        );
        assert_eq!(noon.to_string(), "11:30-12:30");
    }

    #[test]
    fn what_is_no_span_is_refused() {
        for text in
            ["", "22:00", "22:00-", "22-05", "24:00-05:00", "22:60-05:00", "1:00-2:00", "03:00-03:00", "+1:00-02:00"]
        {
            assert_eq!(Hours::parse(text), None, "{text}");
        }
    }
}
