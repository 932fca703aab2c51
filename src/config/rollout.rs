//! The `rollout:` settings: batch sizes, time windows, and how much disruption changes may cause.

use super::HostShare;
use crate::diag::Span;
use crate::object::DrainAllowedLosses;
use std::fmt;

/// Default timeout for a host to return from a reboot: the self-test of servers with much memory and many devices takes
/// up to a quarter of an hour. Seconds.
pub const REBOOT_LIMIT_S: u64 = 30 * 60;

/// Default time after which a host judges a boot that no session confirmed: firmware of many adapters and a file system
/// check take minutes. Seconds.
pub const REBOOT_GUARD_S: u64 = 10 * 60;

/// `rollout:`.
#[derive(Clone, Debug, PartialEq)]
pub struct RolloutPolicy {
    /// How many hosts receive all their changes first; `None` for no canary.
    pub canary: Option<HostShare>,
    /// How many hosts may fail before no new host starts; `None` for any number.
    pub max_failed: Option<HostShare>,
    /// How many hosts may be out of service at once.
    pub max_unavailable: HostShare,
    /// How many hosts may restart one service at once; `None` for any number.
    pub max_restarting: Option<HostShare>,
    /// Groups of which no two hosts may be out of service at once.
    pub quorum: Vec<(String, Span)>,
    /// Whether forge may reboot hosts.
    pub reboot: RebootPolicy,
    /// Timeout for a host to return from a reboot. Seconds.
    pub reboot_timeout_s: u64,
    /// Seconds after a boot at which the host takes it back unless it brought the host back; `None` for never.
    pub reboot_guard_s: Option<u64>,
    /// Time of day at which windows may open, by the controller's clock; `None` for always.
    pub hours: Option<RolloutHours>,
    /// How long a window waits for processes that use the host's devices; `None` to not wait. Seconds.
    pub busy_wait_s: Option<u64>,
    /// The set of acceptance tests that a host has to pass before it is brought back into service.
    pub return_tests: Option<(String, Span)>,
    /// The group whose hosts are Slurm nodes.
    pub slurm: Option<(String, Span)>,
    /// The group whose hosts are Kubernetes nodes, and how they are drained.
    pub kubernetes: Option<NodeDrain>,
    /// The place of `rollout:` in the inventory; `None` if it is not declared.
    pub span: Option<Span>,
}

impl Default for RolloutPolicy {
    /// Allows a quarter of the hosts at once and no reboots. Anything more must be declared.
    fn default() -> Self {
        Self {
            canary: None,
            max_failed: None,
            max_unavailable: HostShare::Percent(25),
            max_restarting: None,
            quorum: Vec::new(),
            reboot: RebootPolicy::default(),
            reboot_timeout_s: REBOOT_LIMIT_S,
            reboot_guard_s: Some(REBOOT_GUARD_S),
            hours: None,
            busy_wait_s: None,
            return_tests: None,
            slurm: None,
            kubernetes: None,
            span: None,
        }
    }
}

impl RolloutPolicy {
    /// Returns whether a host of these groups is declared as a Slurm node.
    pub fn is_slurm_node(&self, groups: &[String]) -> bool {
        self.slurm.as_ref().is_some_and(|(group, _)| group == "all" || groups.contains(group))
    }
}

/// How Kubernetes nodes are drained.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeDrain {
    /// The group whose hosts are the nodes.
    pub group: (String, Span),
    /// Timeout of the eviction of all pods. Seconds.
    pub timeout_s: u64,
    /// Grace period of each pod; `None` for the pod's own. Seconds.
    pub grace_s: Option<u64>,
    /// Which pods may be deleted although nothing recreates them or their data.
    pub manner: DrainAllowedLosses,
    /// Resources that a node must offer before it is uncordoned; `None` to uncordon it at once.
    pub returns: Option<NodeReturnCondition>,
    /// Sets of acceptance tests with a label of the node that says that its host holds them.
    pub test_labels: Vec<(String, Span)>,
}

/// Resources that a node must offer before it takes pods again, in addition to being ready.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeReturnCondition {
    /// Required amounts, by resource name.
    pub offers: Vec<(String, ResourceOffer)>,
    /// How long to wait for them. Seconds.
    pub within_s: u64,
}

/// How much of a resource the node must offer to pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceOffer {
    /// At least this amount.
    Count(i64),
    /// The node's full capacity, which must not be zero.
    Capacity,
}

impl NodeReturnCondition {
    /// Returns each offer as text: `nvidia.com/gpu 8`.
    pub fn describe_offers(&self) -> Vec<String> {
        let one = |(name, offer): &(String, ResourceOffer)| match offer {
            ResourceOffer::Count(count) => format!("{name} {count}"),
            ResourceOffer::Capacity => format!("{name} all of its capacity"),
        };
        self.offers.iter().map(one).collect()
    }
}

/// Default timeout of a drain. Seconds.
pub const DRAIN_LIMIT_S: u64 = 10 * 60;

/// Default time to wait for a node to offer the declared resources. Seconds.
pub const RETURN_LIMIT_S: u64 = 10 * 60;

/// Whether hosts may reboot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RebootPolicy {
    /// Hosts reboot if the plan includes a reboot.
    Allow,
    /// Changes that need a reboot stay pending.
    #[default]
    Never,
}

impl RebootPolicy {
    /// Every policy, the default last.
    pub const ALL: [Self; 2] = [Self::Allow, Self::Never];

    /// Returns the value of `reboot` that selects the policy.
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

/// A time range of the day, in minutes since midnight. A range that ends before it begins spans midnight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RolloutHours {
    from: u16,
    to: u16,
}

impl RolloutHours {
    /// Parses `22:00-05:00`. The end is exclusive.
    pub fn parse(text: &str) -> Option<Self> {
        let (from, to) = text.split_once('-')?;
        let hours = Self { from: parse_minute(from.trim())?, to: parse_minute(to.trim())? };
        (hours.from != hours.to).then_some(hours)
    }

    /// Returns the time at which the range begins: `22:00`.
    pub fn format_start(self) -> String {
        format!("{:02}:{:02}", self.from / 60, self.from % 60)
    }

    /// Returns whether the range includes a minute of the day.
    pub fn contains_minute(self, minute: u16) -> bool {
        match self.from < self.to {
            true => (self.from..self.to).contains(&minute),
            false => minute >= self.from || minute < self.to,
        }
    }
}

fn parse_minute(text: &str) -> Option<u16> {
    let (hour, minute) = text.split_once(':')?;
    let digits = |text: &str| text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
    let (hour, minute) = (digits(hour).then_some(hour)?, digits(minute).then_some(minute)?);
    let (hour, minute) = (hour.parse::<u16>().ok()?, minute.parse::<u16>().ok()?);
    (hour < 24 && minute < 60).then_some(hour * 60 + minute)
}

impl fmt::Display for RolloutHours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to } = self;
        write!(f, "{:02}:{:02}-{:02}:{:02}", from / 60, from % 60, to / 60, to % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_may_span_midnight() {
        let night = RolloutHours::parse("22:00-05:00").unwrap();
        let at = |hour: u16, minute: u16| night.contains_minute(hour * 60 + minute);
        assert_eq!(
            (at(21, 59), at(22, 0), at(23, 59), at(0, 0), at(4, 59), at(5, 0)),
            (false, true, true, true, true, false)
        );
        let noon = RolloutHours::parse("11:30 - 12:30").unwrap();
        assert_eq!(
            (
                noon.contains_minute(11 * 60 + 29),
                noon.contains_minute(11 * 60 + 30),
                noon.contains_minute(12 * 60 + 30)
            ),
            (false, true, false)
        );
        assert_eq!((noon.to_string().as_str(), noon.format_start().as_str()), ("11:30-12:30", "11:30"));
    }

    #[test]
    fn invalid_hours_are_rejected() {
        for text in
            ["", "22:00", "22:00-", "22-05", "24:00-05:00", "22:60-05:00", "1:00-2:00", "03:00-03:00", "+1:00-02:00"]
        {
            assert_eq!(RolloutHours::parse(text), None, "{text}");
        }
    }
}
