//! Rounds of pairs that follow the fabric: within leaves, or between them.

use super::schedule::{MemberPair, schedule_ring, schedule_rounds, split_in_groups};
use std::collections::BTreeMap;

/// Returns the members of each leaf, the leaf of the first member first. `leaf_of` has the leaf of each member.
pub fn group_by_leaf(leaf_of: &[usize]) -> Vec<Vec<usize>> {
    let mut order: BTreeMap<usize, usize> = BTreeMap::new();
    let mut leaves: Vec<Vec<usize>> = Vec::new();
    for (member, leaf) in leaf_of.iter().enumerate() {
        let place = *order.entry(*leaf).or_insert_with(|| {
            leaves.push(Vec::new());
            leaves.len() - 1
        });
        leaves[place].push(member);
    }
    leaves
}

/// Returns rounds in which each member meets two others of its leaf, or the only other one. All leaves are tested at
/// the same time. A member that is alone in its leaf is in no pair.
pub fn schedule_within_leaves(leaf_of: &[usize]) -> Vec<Vec<MemberPair>> {
    let mut rounds: Vec<Vec<MemberPair>> = Vec::new();
    for members in group_by_leaf(leaf_of) {
        for (at, pairs) in schedule_ring(members.len()).into_iter().enumerate() {
            rounds.resize(rounds.len().max(at + 1), Vec::new());
            rounds[at].extend(pairs.into_iter().map(|(one, other)| (members[one], members[other])));
        }
    }
    rounds
}

/// Returns rounds in which each member meets a member of every other leaf: the leaves meet by the circle method, and the
/// members of two leaves in their order, so that traffic passes the cables between all switches. A leaf with more
/// members than the other one meets it in several rounds.
pub fn schedule_across_leaves(leaf_of: &[usize]) -> Vec<Vec<MemberPair>> {
    let leaves = group_by_leaf(leaf_of);
    schedule_rounds(leaves.len()).into_iter().flat_map(|meeting| meet_leaves(&leaves, &meeting)).collect()
}

/// Returns the rounds in which pairs of leaves meet. No leaf is in two pairs.
fn meet_leaves(leaves: &[Vec<usize>], meeting: &[MemberPair]) -> Vec<Vec<MemberPair>> {
    let mut rounds: Vec<Vec<MemberPair>> = Vec::new();
    for (one, other) in meeting {
        let (one, other) = (&leaves[*one], &leaves[*other]);
        let (few, many) = if one.len() <= other.len() { (one, other) } else { (other, one) };
        for (at, part) in many.chunks(few.len()).enumerate() {
            rounds.resize(rounds.len().max(at + 1), Vec::new());
            rounds[at].extend(part.iter().zip(few).map(|(one, other)| (*one.min(other), *one.max(other))));
        }
    }
    rounds
}

/// Returns groups of at most `size` members of one leaf; 0 makes one group of each leaf. A member that is alone in its
/// leaf is in no group.
pub fn group_within_leaves(leaf_of: &[usize], size: usize) -> Vec<Vec<usize>> {
    let leaves = group_by_leaf(leaf_of).into_iter().filter(|members| members.len() > 1);
    leaves.flat_map(|members| split_in_groups(&members, count_groups(members.len(), size))).collect()
}

/// Returns groups of at most `size` members whose neighbours are in different leaves; 0 makes one group of all.
pub fn group_across_leaves(leaf_of: &[usize], size: usize) -> Vec<Vec<usize>> {
    let leaves = group_by_leaf(leaf_of);
    let longest = leaves.iter().map(Vec::len).max().unwrap_or_default();
    let in_turn: Vec<usize> =
        (0..longest).flat_map(|at| leaves.iter().filter_map(move |members| members.get(at).copied())).collect();
    split_in_groups(&in_turn, count_groups(in_turn.len(), size))
}

fn count_groups(members: usize, size: usize) -> usize {
    if size == 0 { 1 } else { members.div_ceil(size) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn assert_no_member_twice(rounds: &[Vec<MemberPair>]) {
        for round in rounds {
            let busy: Vec<usize> = round.iter().flat_map(|(one, other)| [*one, *other]).collect();
            assert_eq!(busy.iter().collect::<BTreeSet<_>>().len(), busy.len(), "{round:?}");
        }
    }

    proptest! {
        #[test]
        fn members_meet_two_others_of_their_leaf(leaf_of in prop::collection::vec(0_usize..6, 0..40)) {
            let rounds = schedule_within_leaves(&leaf_of);
            assert_no_member_twice(&rounds);
            prop_assert!(rounds.len() <= 3);
            let pairs = rounds.concat();
            prop_assert!(pairs.iter().all(|(one, other)| leaf_of[*one] == leaf_of[*other]));
            for (member, leaf) in leaf_of.iter().enumerate() {
                let mates = leaf_of.iter().filter(|other| *other == leaf).count();
                let met = pairs.iter().filter(|(one, other)| *one == member || *other == member).count();
                prop_assert_eq!(met, [0, 0, 1, 2][mates.min(3)]);
            }
        }

        #[test]
        fn members_meet_every_other_leaf(leaf_of in prop::collection::vec(0_usize..6, 0..40)) {
            let rounds = schedule_across_leaves(&leaf_of);
            assert_no_member_twice(&rounds);
            let pairs = rounds.concat();
            prop_assert_eq!(pairs.iter().collect::<BTreeSet<_>>().len(), pairs.len());
            let leaves: BTreeSet<usize> = leaf_of.iter().copied().collect();
            for (member, own) in leaf_of.iter().enumerate() {
                let met = pairs.iter().filter_map(|(one, other)| match member {
                    _ if *one == member => Some(leaf_of[*other]),
                    _ if *other == member => Some(leaf_of[*one]),
                    _ => None,
                });
                let expected: BTreeSet<usize> = leaves.iter().copied().filter(|leaf| leaf != own).collect();
                prop_assert_eq!(met.collect::<BTreeSet<_>>(), expected);
            }
        }

        #[test]
        fn groups_follow_the_leaves(leaf_of in prop::collection::vec(0_usize..6, 0..40), size in 0_usize..7) {
            let size = if size == 1 { 2 } else { size };
            let within = group_within_leaves(&leaf_of, size);
            prop_assert!(within.iter().all(|group| group.len() > 1));
            prop_assert!(within.iter().all(|group| group.iter().all(|member| leaf_of[*member] == leaf_of[group[0]])));
            let mut all = group_across_leaves(&leaf_of, size).concat();
            all.sort_unstable();
            prop_assert_eq!(all, (0..leaf_of.len()).collect::<Vec<_>>());
        }
    }

    #[test]
    fn leaves_of_equal_size_meet_in_one_round_fewer_than_there_are_leaves() {
        let leaf_of: Vec<usize> = (0..24).map(|host| host / 6).collect();
        let rounds = schedule_across_leaves(&leaf_of);
        assert_eq!(rounds.iter().map(Vec::len).collect::<Vec<_>>(), [12, 12, 12]);
        assert_eq!(schedule_across_leaves(&[0, 0, 1]), [vec![(0, 2)], vec![(1, 2)]]);
        assert_eq!(schedule_within_leaves(&[3, 9, 3, 9, 5]), [vec![(0, 2), (1, 3)]]);
        assert_eq!(group_across_leaves(&[0, 0, 1, 1], 2), [[0, 2], [1, 3]]);
    }
}
