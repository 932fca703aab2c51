//! Decides whether a further host may start.

use super::RolloutPlan;
use crate::model::HostName;

/// Why no further host may start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartRefusal {
    /// How many hosts failed, at least 1.
    pub failed: usize,
    /// How many failed hosts the rollout allows; 0 if a canary did not succeed.
    pub allowed: usize,
    /// The canary that did not succeed, if that is why.
    pub canary: Option<HostName>,
    /// For the report of a host that does not start: a lowercase fragment.
    pub reason: String,
}

impl RolloutPlan {
    /// Returns why no further host may start, if so. A canary that did not succeed uses up the whole budget.
    pub fn refuse_start(&self, failed: usize, canary: Option<&HostName>) -> Option<StartRefusal> {
        let refusal =
            |allowed, reason| Some(StartRefusal { failed: failed.max(1), allowed, canary: canary.cloned(), reason });
        match (canary, self.max_failed) {
            (Some(canary), _) => refusal(0, format!("not started: canary `{canary}` did not succeed")),
            (None, Some(allowed)) if failed > allowed => {
                let hosts = if failed == 1 { "host" } else { "hosts" };
                refusal(allowed, format!("not started: {failed} {hosts} failed, {allowed} allowed"))
            }
            (None, _) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_start_until_the_budget_is_exceeded_or_a_canary_fails() {
        let canary = HostName::new("c");
        let rollout = |max_failed| RolloutPlan { max_failed, ..RolloutPlan::default() };
        assert_eq!(rollout(None).refuse_start(9, None), None);
        assert_eq!(rollout(Some(1)).refuse_start(1, None), None);
        let refused = rollout(Some(1)).refuse_start(2, None).unwrap();
        assert_eq!((refused.failed, refused.allowed), (2, 1));
        assert_eq!(refused.reason, "not started: 2 hosts failed, 1 allowed");
        let refused = rollout(Some(5)).refuse_start(0, Some(&canary)).unwrap();
        assert_eq!((refused.failed, refused.allowed), (1, 0));
        assert_eq!(refused.reason, "not started: canary `c` did not succeed");
        assert_eq!(refused.canary, Some(canary));
    }
}
