//! Boards of simulated hardware that ship with forge.

/// A server's cards, from `hardware/boards`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HardwareBoard {
    /// Its name in an inventory.
    pub name: &'static str,
    pub(crate) cards: &'static str,
}

/// All boards, sorted by name.
pub const BOARDS: [HardwareBoard; 7] = [
    HardwareBoard { name: "a100x8", cards: include_str!("../../hardware/boards/a100x8") },
    HardwareBoard { name: "b200x8", cards: include_str!("../../hardware/boards/b200x8") },
    HardwareBoard { name: "gb200x4", cards: include_str!("../../hardware/boards/gb200x4") },
    HardwareBoard { name: "h100-pcie", cards: include_str!("../../hardware/boards/h100-pcie") },
    HardwareBoard { name: "h100x8-ndr", cards: include_str!("../../hardware/boards/h100x8-ndr") },
    HardwareBoard { name: "h100x8-roce", cards: include_str!("../../hardware/boards/h100x8-roce") },
    HardwareBoard { name: "h200x8-roce", cards: include_str!("../../hardware/boards/h200x8-roce") },
];
