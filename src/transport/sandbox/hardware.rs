//! Hardware that is not there: boards that ship with forge, and the script that shows one to a sandbox.

/// A server's cards, as `hardware/boards` has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Board {
    /// What an inventory calls it.
    pub name: &'static str,
    pub(super) cards: &'static str,
}

/// Every board there is, by name.
pub const BOARDS: [Board; 6] = [
    Board { name: "a100x8", cards: include_str!("../../../hardware/boards/a100x8") },
    Board { name: "b200x8", cards: include_str!("../../../hardware/boards/b200x8") },
    Board { name: "gb200x4", cards: include_str!("../../../hardware/boards/gb200x4") },
    Board { name: "h100-pcie", cards: include_str!("../../../hardware/boards/h100-pcie") },
    Board { name: "h100x8-ndr", cards: include_str!("../../../hardware/boards/h100x8-ndr") },
    Board { name: "h100x8-roce", cards: include_str!("../../../hardware/boards/h100x8-roce") },
];

/// Builds what the kernel shows of a board, and binds it over the machine's own.
pub(super) const POWER_ON: &str = include_str!("../../../hardware/power-on");
