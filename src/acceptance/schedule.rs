//! Which hosts are tested together, and when: rounds of pairs, and groups.

/// Two members that are tested against each other.
pub type MemberPair = (usize, usize);

/// Returns rounds in which every member meets every other one once, and is in one pair per round at most: the circle
/// method. An even number of members takes n − 1 rounds; an odd one n, each with one member that rests.
pub fn schedule_rounds(members: usize) -> Vec<Vec<MemberPair>> {
    if members < 2 {
        return Vec::new();
    }
    let seats = members + members % 2;
    let turning = seats - 1;
    let seat = |round: usize, at: usize| if at == 0 { turning } else { (round + at - 1) % turning };
    (0..turning)
        .map(|round| {
            (0..seats / 2)
                .map(|at| (seat(round, at), seat(round, seats - 1 - at)))
                .map(|(one, other)| (one.min(other), one.max(other)))
                .filter(|(_, other)| *other < members)
                .collect()
        })
        .collect()
}

/// Returns the pairs of neighbours in a ring as rounds in which no member is in two pairs: two rounds, or three for an
/// odd number of members. Every member meets two others.
pub fn schedule_ring(members: usize) -> Vec<Vec<MemberPair>> {
    if members < 2 {
        return Vec::new();
    }
    let mut rounds: Vec<Vec<MemberPair>> = vec![Vec::new(), Vec::new()];
    (0..members - 1).for_each(|at| rounds[at % 2].push((at, at + 1)));
    if members > 2 {
        let closing = if members.is_multiple_of(2) { 1 } else { 2 };
        rounds.resize(rounds.len().max(closing + 1), Vec::new());
        rounds[closing].push((0, members - 1));
    }
    rounds.retain(|round| !round.is_empty());
    rounds
}

/// Splits rounds so that `at_once` pairs run at a time at most; 0 does not limit them.
pub fn limit_rounds(rounds: Vec<Vec<MemberPair>>, at_once: usize) -> Vec<Vec<MemberPair>> {
    match at_once {
        0 => rounds,
        _ => rounds.iter().flat_map(|round| round.chunks(at_once).map(<[MemberPair]>::to_vec)).collect(),
    }
}

/// Returns rounds of groups of at most `size` members, each member in one group; 0 makes one group of all. No group has
/// one member, so that one of an odd number of pairs has three. `at_once` groups run at a time; 0 does not limit them.
pub fn schedule_groups(members: usize, size: usize, at_once: usize) -> Vec<Vec<Vec<usize>>> {
    let all: Vec<usize> = (0..members).collect();
    split_groups_in_rounds(split_in_groups(&all, if size == 0 { 1 } else { members.div_ceil(size) }), at_once)
}

/// Divides groups into rounds of at most `at_once` groups; 0 does not limit them.
pub fn split_groups_in_rounds(groups: Vec<Vec<usize>>, at_once: usize) -> Vec<Vec<Vec<usize>>> {
    match at_once {
        0 => vec![groups],
        _ => groups.chunks(at_once).map(<[Vec<usize>]>::to_vec).collect(),
    }
}

/// Divides members into √n groups of nearly the same size, in order.
pub fn split_in_root_groups(members: &[usize]) -> Vec<Vec<usize>> {
    split_in_groups(members, (members.len() as f64).sqrt().ceil() as usize)
}

/// Divides members into `groups` groups whose sizes differ by one at most. No group has a single member if there are at
/// least two: it could not be tested.
pub fn split_in_groups(members: &[usize], groups: usize) -> Vec<Vec<usize>> {
    if members.is_empty() {
        return Vec::new();
    }
    let groups = groups.clamp(1, (members.len() / 2).max(1));
    (0..groups).map(|at| members[at * members.len() / groups..(at + 1) * members.len() / groups].to_vec()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn assert_members_meet_once_per_round(rounds: &[Vec<MemberPair>], members: usize) {
        for round in rounds {
            let busy: Vec<usize> = round.iter().flat_map(|(one, other)| [*one, *other]).collect();
            let different: BTreeSet<usize> = busy.iter().copied().collect();
            assert_eq!(busy.len(), different.len(), "{members} members: {round:?}");
            assert!(different.iter().all(|member| *member < members), "{round:?}");
        }
    }

    #[test]
    fn every_pair_meets_once_and_members_are_in_one_pair_per_round() {
        for members in 0..66 {
            let rounds = schedule_rounds(members);
            assert_members_meet_once_per_round(&rounds, members);
            let expected = if members < 2 { 0 } else { members - 1 + members % 2 };
            assert_eq!(rounds.len(), expected);
            let pairs: Vec<MemberPair> = rounds.concat();
            let different: BTreeSet<MemberPair> = pairs.iter().copied().collect();
            assert_eq!((pairs.len(), different.len()), (members * members.saturating_sub(1) / 2, pairs.len()));
            let resting = |round: &Vec<MemberPair>| members - 2 * round.len();
            assert!(rounds.iter().all(|round| resting(round) == members % 2), "one member rests if the number is odd");
        }
    }

    #[test]
    fn ring_takes_at_most_three_rounds() {
        for members in 0..66 {
            let rounds = schedule_ring(members);
            assert_members_meet_once_per_round(&rounds, members);
            let mut met = vec![0; members];
            rounds.concat().iter().for_each(|(one, other)| {
                met[*one] += 1;
                met[*other] += 1;
            });
            let neighbours = match members {
                0 | 1 => 0,
                2 => 1,
                _ => 2,
            };
            assert!(met.iter().all(|times| *times == neighbours), "{members}: {met:?}");
            assert!(rounds.len() <= 2 + members % 2);
        }
        assert_eq!(schedule_ring(3), [vec![(0, 1)], vec![(1, 2)], vec![(0, 2)]]);
    }

    #[test]
    fn pairs_at_once_are_limited() {
        for (members, at_once) in [(9, 2), (16, 3), (7, 0)] {
            let rounds = limit_rounds(schedule_rounds(members), at_once);
            assert_members_meet_once_per_round(&rounds, members);
            assert!(rounds.iter().all(|round| at_once == 0 || round.len() <= at_once));
            assert_eq!(rounds.concat().len(), members * (members - 1) / 2);
        }
    }

    #[test]
    fn groups_have_the_declared_size_at_most_and_no_single_member() {
        assert_eq!(schedule_groups(5, 0, 0), [[vec![0, 1, 2, 3, 4]]]);
        assert_eq!(schedule_groups(7, 3, 0), [[vec![0, 1], vec![2, 3], vec![4, 5, 6]]]);
        assert_eq!(schedule_groups(6, 3, 1), [[vec![0, 1, 2]], [vec![3, 4, 5]]]);
        for (members, size) in [(9, 2), (10, 4), (3, 8), (232, 29)] {
            let rounds = schedule_groups(members, size, 2);
            assert!(rounds.iter().all(|round| round.len() <= 2));
            let groups = rounds.concat();
            assert!(groups.iter().all(|group| group.len() >= 2 && group.len() <= size.max(3)), "{groups:?}");
            assert_eq!(groups.concat(), (0..members).collect::<Vec<_>>());
        }
    }

    #[test]
    fn members_are_in_exactly_one_group() {
        for members in 0..300 {
            let mut all = split_in_root_groups(&(0..members).collect::<Vec<_>>()).concat();
            all.sort_unstable();
            assert_eq!(all, (0..members).collect::<Vec<_>>());
        }
    }

    #[test]
    fn members_without_topology_are_divided_by_their_square_root() {
        let groups = split_in_root_groups(&(0..232).collect::<Vec<_>>());
        assert_eq!(groups.len(), 16);
        assert!(groups.iter().all(|group| (14..=15).contains(&group.len())));
        let small = split_in_root_groups(&[4, 5, 6]);
        assert_eq!(small, [vec![4, 5, 6]], "a group of one member could not be tested");
    }
}
