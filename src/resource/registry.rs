//! The list of all kinds.

use super::kind::ResourceKind;
use super::traits::KindTraits;
use super::{accounts, cluster, files, generic, packages, system};

/// Returns every kind, in the order of the reference.
pub fn all_kinds() -> &'static [ResourceKind] {
    static KINDS: &[ResourceKind] = &[
        files::file::KIND,
        files::directory::KIND,
        files::link::KIND,
        files::absent::KIND,
        files::restore::KIND,
        files::line::KIND,
        files::block::KIND,
        files::toml::KIND,
        files::archive::KIND,
        files::artifact::KIND,
        packages::package::KIND,
        packages::package_file::KIND,
        packages::repository::KIND,
        packages::apt_repository::KIND,
        system::service::KIND,
        system::unit::KIND,
        accounts::user::KIND,
        accounts::ssh_authorized_key::KIND,
        accounts::group::KIND,
        generic::command::KIND,
        packages::installer::KIND,
        generic::wait_for::KIND,
        system::sysctl::KIND,
        system::module::KIND,
        system::kernel_cmdline::KIND,
        system::initramfs::KIND,
        system::mount::KIND,
        system::nftables::KIND,
        system::cron::KIND,
        system::timer::KIND,
        system::reboot::KIND,
        cluster::namespace::KIND,
        cluster::node::KIND,
        cluster::node::restore::KIND,
        cluster::secret::KIND,
        cluster::manifest::KIND,
        cluster::restore_object::KIND,
        cluster::job::KIND,
        cluster::helm_release::KIND,
        cluster::helm_release::restore::KIND,
    ];
    KINDS
}

/// Returns the kind with that name.
pub fn find_kind(name: &str) -> Option<&'static ResourceKind> {
    all_kinds().iter().find(|kind| kind.name == name)
}

/// Returns the traits of the kind with that name; those of an unknown kind are the default.
pub fn kind_traits(name: &str) -> &'static KindTraits {
    find_kind(name).map_or(&KindTraits::DEFAULT, |kind| &kind.traits)
}
