//! Kinds of the running system: services, units, kernel settings, mounts and reboots.

pub(in crate::resource) mod cron;
pub(in crate::resource) mod initramfs;
pub(in crate::resource) mod kernel_cmdline;
pub(in crate::resource) mod module;
pub(in crate::resource) mod mount;
pub(in crate::resource) mod nftables;
pub(in crate::resource) mod reboot;
pub(in crate::resource) mod service;
pub(in crate::resource) mod sysctl;
pub(in crate::resource) mod timer;
pub(in crate::resource) mod unit;
