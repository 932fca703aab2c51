//! A number of hosts, as a count or a percentage.

/// A count or a percentage of the selected hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostShare {
    /// A number of hosts, however many are selected.
    Count(u32),
    /// Percent of the selected hosts, 0 to 100.
    Percent(u32),
}

impl HostShare {
    /// Returns the share of `total` that is permitted at most: percentages are rounded down, at least 1.
    pub fn resolve_count(self, total: usize) -> usize {
        match self {
            Self::Count(count) => count as usize,
            Self::Percent(percent) => (total * percent as usize / 100).max(1).min(total.max(1)),
        }
    }

    /// Returns the share of `total` that is required at least: percentages are rounded up, at least 1.
    pub fn resolve_minimum(self, total: usize) -> usize {
        match self {
            Self::Count(count) => count as usize,
            Self::Percent(percent) => (total * percent as usize).div_ceil(100).max(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn required_share_is_rounded_up_and_permitted_share_down() {
        let of = |percent, total| {
            let share = HostShare::Percent(percent);
            (share.resolve_count(total), share.resolve_minimum(total))
        };
        assert_eq!(of(67, 3), (2, 3), "two of three are less than 67 %");
        assert_eq!(of(66, 3), (1, 2));
        assert_eq!(of(90, 10), (9, 9));
        assert_eq!(of(100, 3), (3, 3));
        assert_eq!(of(1, 3), (1, 1));
        assert_eq!(HostShare::Count(5).resolve_minimum(3), 5);
    }
}
