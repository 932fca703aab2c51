//! Which hosts a test measures together, and in which order.

use super::test_suite::{DeclaredTest, PairSelection};
use crate::acceptance::{
    FabricLayout, MemberPair, group_across_leaves, group_within_leaves, limit_rounds, schedule_across_leaves,
    schedule_groups, schedule_ring, schedule_rounds, schedule_within_leaves, split_groups_in_rounds,
};
use crate::model::HostName;

/// The rounds of a test, and the hosts that are in none.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedRounds<T> {
    /// Measurements of a round run at the same time. Hosts have the numbers of the caller's list.
    pub rounds: Vec<Vec<T>>,
    /// Hosts without a measurement, because no other host is in the right place.
    pub alone: Vec<usize>,
}

impl DeclaredTest {
    /// Returns the rounds of pairs in a rail.
    ///
    /// # Errors
    /// The schedule needs the leaf of a host that has none in this rail: the reason.
    pub fn plan_pair_rounds(
        &self,
        fabric: &FabricLayout,
        hosts: &[&HostName],
        rail: Option<&str>,
    ) -> Result<PlannedRounds<MemberPair>, String> {
        let rounds = match self.pairs {
            PairSelection::Ring => schedule_ring(hosts.len()),
            PairSelection::All => schedule_rounds(hosts.len()),
            PairSelection::Leaf => schedule_within_leaves(&number_leaves(fabric, hosts, rail)?),
            PairSelection::Across => schedule_across_leaves(&number_leaves(fabric, hosts, rail)?),
        };
        let alone = list_others(hosts.len(), rounds.iter().flatten().flat_map(|(one, other)| [*one, *other]));
        Ok(PlannedRounds { rounds: limit_rounds(rounds, self.at_once), alone })
    }

    /// Returns the rounds of groups.
    ///
    /// # Errors
    /// As [`DeclaredTest::plan_pair_rounds`].
    pub fn plan_group_rounds(
        &self,
        fabric: &FabricLayout,
        hosts: &[&HostName],
    ) -> Result<PlannedRounds<Vec<usize>>, String> {
        if self.group_size == 2 {
            let pairs = self.plan_pair_rounds(fabric, hosts, None)?;
            let to_groups = |round: Vec<MemberPair>| round.into_iter().map(|(one, other)| vec![one, other]).collect();
            return Ok(PlannedRounds { rounds: pairs.rounds.into_iter().map(to_groups).collect(), alone: pairs.alone });
        }
        let rounds = match self.pairs {
            PairSelection::Ring | PairSelection::All => schedule_groups(hosts.len(), self.group_size, self.at_once),
            PairSelection::Leaf => split_groups_in_rounds(
                group_within_leaves(&number_leaves(fabric, hosts, None)?, self.group_size),
                self.at_once,
            ),
            PairSelection::Across => split_groups_in_rounds(
                group_across_leaves(&number_leaves(fabric, hosts, None)?, self.group_size),
                self.at_once,
            ),
        };
        let alone = list_others(hosts.len(), rounds.iter().flatten().flatten().copied());
        Ok(PlannedRounds { rounds, alone })
    }
}

/// Returns the numbers below `count` that are not among `busy`.
fn list_others(count: usize, busy: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut is_busy = vec![false; count];
    busy.for_each(|host| is_busy[host] = true);
    (0..count).filter(|host| !is_busy[*host]).collect()
}

fn number_leaves(fabric: &FabricLayout, hosts: &[&HostName], rail: Option<&str>) -> Result<Vec<usize>, String> {
    fabric.number_leaves(hosts, rail).map_err(|host| match rail {
        Some(rail) => format!("`fabric` has no leaf for adapter `{rail}` of `{host}`"),
        None => format!("`fabric` has no leaf for `{host}`"),
    })
}
