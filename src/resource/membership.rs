//! What steps declare about the membership of accounts in groups. Two kinds declare it: the group with its members, and
//! the account with its groups.

/// The members of one group, or the supplementary groups of one account.
#[derive(Clone, Debug, PartialEq)]
pub enum DeclaredMembership {
    /// The members of a group.
    OfGroup {
        /// The group's name.
        group: String,
        /// Names of accounts.
        members: Vec<String>,
        /// Whether other members are removed.
        exact: bool,
    },
    /// The groups of an account.
    OfUser {
        /// The account's name.
        user: String,
        /// The account's primary group, which lists of groups and members need not contain.
        primary: String,
        /// Names of supplementary groups.
        groups: Vec<String>,
        /// Whether the account is removed from other groups.
        exact: bool,
    },
}

impl DeclaredMembership {
    /// Returns the field that declares it.
    pub fn field(&self) -> &'static str {
        match self {
            Self::OfGroup { .. } => "members",
            Self::OfUser { .. } => "groups",
        }
    }

    /// Returns the account and the group of which one declaration makes the account a member, and the other removes it.
    pub fn find_contradiction(&self, other: &Self) -> Option<(String, String)> {
        let (group, members, exact_group, user, primary, groups, exact_user) = match (self, other) {
            (Self::OfGroup { group, members, exact }, Self::OfUser { user, primary, groups, exact: exact_user })
            | (Self::OfUser { user, primary, groups, exact: exact_user }, Self::OfGroup { group, members, exact }) => {
                (group, members, *exact, user, primary, groups, *exact_user)
            }
            _ => return None,
        };
        let (by_group, by_user) = (members.contains(user), groups.contains(group));
        let differs = by_user && !by_group && exact_group || by_group && !by_user && exact_user;
        (differs && primary != group).then(|| (user.clone(), group.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_group(members: &[&str], exact: bool) -> DeclaredMembership {
        let members = members.iter().map(|member| (*member).to_owned()).collect();
        DeclaredMembership::OfGroup { group: "hpc".to_owned(), members, exact }
    }

    fn of_user(groups: &[&str], exact: bool, primary: &str) -> DeclaredMembership {
        let groups = groups.iter().map(|group| (*group).to_owned()).collect();
        DeclaredMembership::OfUser { user: "ann".to_owned(), primary: primary.to_owned(), groups, exact }
    }

    #[test]
    fn exact_list_contradicts_a_list_that_adds_more() {
        let found = Some(("ann".to_owned(), "hpc".to_owned()));
        assert_eq!(of_group(&["bob"], true).find_contradiction(&of_user(&["hpc"], false, "ann")), found);
        assert_eq!(of_user(&["hpc"], true, "ann").find_contradiction(&of_group(&["bob"], true)), found);
        assert_eq!(of_group(&["ann"], false).find_contradiction(&of_user(&["video"], true, "ann")), found);
    }

    #[test]
    fn lists_that_agree_or_only_add_do_not_contradict() {
        for (group, user) in [
            (of_group(&["ann", "bob"], true), of_user(&["hpc"], true, "ann")),
            (of_group(&["bob"], false), of_user(&["hpc"], true, "ann")),
            (of_group(&["ann"], true), of_user(&["video"], false, "ann")),
            (of_group(&["bob"], true), of_user(&["video"], true, "ann")),
            (of_group(&["ann"], true), of_user(&[], true, "hpc")),
        ] {
            assert_eq!(group.find_contradiction(&user), None, "{group:?} {user:?}");
        }
    }
}
