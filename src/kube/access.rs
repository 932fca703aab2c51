//! Which API is meant, and as whom: one file and one context of it.

use super::KubeError;
use crate::model::HostName;
use ::kube::Config;
use ::kube::config::{AuthInfo, Cluster, KubeConfigOptions, Kubeconfig};
use camino::Utf8PathBuf;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// What the inventory says of the cluster's API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// A file, absolute: on this machine, or on the host that is gone through.
    pub kubeconfig: Utf8PathBuf,
    pub context: String,
    /// Whether the kubeconfig may run programs on this machine.
    pub trusted: bool,
    /// The host through whose session the API is reached, and where the kubeconfig lies.
    pub via: Option<HostName>,
    /// Environment variables that hold secrets of the inventory: no program that is started to log in is given them.
    pub withheld: Arc<BTreeSet<String>>,
    /// Where forge keeps its lock and records.
    pub namespace: String,
}

const CONNECT: Duration = Duration::from_secs(5);
const READ: Duration = Duration::from_secs(30);

impl Access {
    /// Reads the file on this machine and returns how to reach the API.
    ///
    /// # Errors
    /// If there is no such file, and as [`Access::of_text`].
    pub async fn config(&self) -> Result<Config, KubeError> {
        let text = fs_err::read_to_string(&self.kubeconfig).map_err(|error| self.unread(&error))?;
        self.of_text(&text).await
    }

    /// Returns how to reach the API, as the text of a kubeconfig says.
    ///
    /// # Errors
    /// If there is no such context, if its login runs a program without trust, or if it would not check who the server
    /// is.
    pub async fn of_text(&self, text: &str) -> Result<Config, KubeError> {
        let mut file = Kubeconfig::from_yaml(text).map_err(|error| self.broken(&error))?;
        for exec in file.auth_infos.iter_mut().filter_map(|user| user.auth_info.as_mut()?.exec.as_mut()) {
            exec.drop_env.get_or_insert_default().extend(self.withheld.iter().cloned());
        }
        let (cluster, user) = self.chosen(&file)?;
        self.check_server(cluster)?;
        self.check_login(user)?;
        self.check_files(cluster, user)?;
        let options = KubeConfigOptions { context: Some(self.context.clone()), cluster: None, user: None };
        let mut config = Config::from_custom_kubeconfig(file, &options).await.map_err(|error| self.broken(&error))?;
        config.connect_timeout = Some(CONNECT);
        config.read_timeout = Some(READ);
        // Variables of this machine are no part of what was declared.
        config.proxy_url = None;
        // Who asks decides whether to ask again: a budget of disruption says no by 429, too.
        config.default_retry = false;
        Ok(config)
    }

    fn unread(&self, error: &std::io::Error) -> KubeError {
        match error.kind() {
            std::io::ErrorKind::NotFound => KubeError::new(format!("there is no kubeconfig `{}`", self.kubeconfig))
                .hint("name the right file as `kubernetes.kubeconfig`; no other is taken in its place"),
            kind => KubeError::new(format!("kubeconfig `{}` cannot be read: {kind}", self.kubeconfig)),
        }
    }

    fn broken(&self, error: &dyn std::error::Error) -> KubeError {
        KubeError::new(format!("kubeconfig `{}` cannot be used: {error}", self.kubeconfig))
    }

    /// Returns the cluster and the user of the context.
    fn chosen<'f>(&self, file: &'f Kubeconfig) -> Result<(&'f Cluster, Option<&'f AuthInfo>), KubeError> {
        let named = file.contexts.iter().find(|context| context.name == self.context);
        let context = named.and_then(|context| context.context.as_ref()).ok_or_else(|| self.no_context(file))?;
        let cluster = file.clusters.iter().find(|cluster| cluster.name == context.cluster);
        let cluster = cluster.and_then(|cluster| cluster.cluster.as_ref()).ok_or_else(|| {
            let (path, context_name, cluster) = (&self.kubeconfig, &self.context, &context.cluster);
            KubeError::new(format!(
                "kubeconfig `{path}` has no cluster `{cluster}`, which its context `{context_name}` names"
            ))
        })?;
        let user = file.auth_infos.iter().find(|user| Some(&user.name) == context.user.as_ref());
        Ok((cluster, user.and_then(|user| user.auth_info.as_ref())))
    }

    fn no_context(&self, file: &Kubeconfig) -> KubeError {
        let error = KubeError::new(format!("kubeconfig `{}` has no context `{}`", self.kubeconfig, self.context));
        let names: Vec<String> = file.contexts.iter().map(|context| format!("`{}`", context.name)).collect();
        match names.is_empty() {
            true => error.hint("it has no context at all"),
            false => error.hint(format!("it has {}", names.join(", "))),
        }
    }

    /// Whoever answers gets the credentials: it must be the one that is meant.
    fn check_server(&self, cluster: &Cluster) -> Result<(), KubeError> {
        if cluster.insecure_skip_tls_verify == Some(true) {
            let error = KubeError::new(format!("context `{}` does not check the server's certificate", self.context));
            return Err(error.hint("put `certificate-authority` in the place of `insecure-skip-tls-verify`"));
        }
        if cluster.proxy_url.as_ref().is_some_and(|url| !url.is_empty()) {
            let error =
                KubeError::new(format!("context `{}` goes through a proxy, which this version does not", self.context));
            return Err(error.hint("use an address of the API that this machine reaches by itself"));
        }
        let server = cluster.server.as_deref().unwrap_or_default();
        let here = ["http://127.0.0.1:", "http://localhost:", "http://[::1]:"];
        if server.starts_with("http://") && !here.iter().any(|prefix| server.starts_with(prefix)) {
            let error = KubeError::new(format!("context `{}` talks to `{server}` in the open", self.context));
            return Err(error.hint("use an address that begins with `https://`"));
        }
        Ok(())
    }

    fn check_login(&self, user: Option<&AuthInfo>) -> Result<(), KubeError> {
        let Some(user) = user else { return Ok(()) };
        if let Some(provider) = &user.auth_provider {
            let error = KubeError::new(format!(
                "context `{}` logs in by the old `auth-provider` `{}`",
                self.context, provider.name
            ));
            return Err(error.hint("use its successor, a program named under `exec`"));
        }
        let Some(exec) = user.exec.as_ref().filter(|_| !self.trusted || self.via.is_some()) else { return Ok(()) };
        let program = exec.command.as_deref().unwrap_or_default();
        let what = format!("context `{}` runs the program `{program}` on this machine to log in", self.context);
        let error = KubeError::new(what);
        Err(match self.via {
            None => error.hint("pass `--trust` if you trust this kubeconfig as you trust a script"),
            // Whoever is root there would be somebody here.
            Some(_) => {
                error.hint("no host names programs for this machine: use a kubeconfig of this machine, without `via`")
            }
        })
    }

    /// A host's kubeconfig means files of that host, and this machine may have others of the same names.
    fn check_files(&self, cluster: &Cluster, user: Option<&AuthInfo>) -> Result<(), KubeError> {
        let Some(host) = &self.via else { return Ok(()) };
        let of = |user: &AuthInfo| [user.client_certificate.clone(), user.client_key.clone(), user.token_file.clone()];
        let named = user.map(of).into_iter().flatten().chain([cluster.certificate_authority.clone()]);
        let Some(file) = named.flatten().find(|file| !file.is_empty()) else { return Ok(()) };
        let error =
            KubeError::new(format!("context `{}` names the file `{file}`, which lies on `{host}`", self.context));
        Err(error.hint("put what is in it into the kubeconfig, as `kubectl config view --flatten --raw` does"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kube::NAMESPACE;

    const FILE: &str = "apiVersion: v1
kind: Config
current-context: other
clusters:
  - { name: a, cluster: { server: 'https://127.0.0.1:6443' } }
  - { name: blind, cluster: { server: 'https://127.0.0.1:6443', insecure-skip-tls-verify: true } }
  - { name: open, cluster: { server: 'http://api.example:8080' } }
  - { name: proxied, cluster: { server: 'https://api.example:6443', proxy-url: 'http://proxy.example:3128' } }
users:
  - { name: u, user: { token: hunter2 } }
  - { name: program, user: { exec: { apiVersion: client.authentication.k8s.io/v1, command: get-token } } }
  - { name: old, user: { auth-provider: { name: gcp, config: {} } } }
contexts:
  - { name: plain, context: { cluster: a, user: u } }
  - { name: blind, context: { cluster: blind, user: u } }
  - { name: open, context: { cluster: open, user: u } }
  - { name: proxied, context: { cluster: proxied, user: u } }
  - { name: program, context: { cluster: a, user: program } }
  - { name: old, context: { cluster: a, user: old } }
  - { name: torn, context: { cluster: gone, user: u } }
";

    async fn of(context: &str, trusted: bool) -> Result<Config, KubeError> {
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = Utf8PathBuf::from_path_buf(folder.path().join("config")).unwrap();
        std::fs::write(&kubeconfig, FILE).unwrap();
        let access = Access {
            kubeconfig,
            context: context.to_owned(),
            trusted,
            via: None,
            withheld: Default::default(),
            namespace: NAMESPACE.to_owned(),
        };
        access
            .config()
            .await
            .map_err(|error| KubeError { message: error.message.replace(access.kubeconfig.as_str(), "FILE"), ..error })
    }

    async fn error(context: &str) -> (String, String) {
        let error = of(context, false).await.unwrap_err();
        (error.message, error.hint.unwrap_or_default())
    }

    #[tokio::test]
    async fn the_context_that_was_named_is_taken_and_no_other() {
        assert_eq!(of("plain", false).await.unwrap().cluster_url, "https://127.0.0.1:6443/");
        let (message, hint) = error("prod").await;
        assert_eq!(message, "kubeconfig `FILE` has no context `prod`");
        assert_eq!(hint, "it has `plain`, `blind`, `open`, `proxied`, `program`, `old`, `torn`");
        assert_eq!(error("torn").await.0, "kubeconfig `FILE` has no cluster `gone`, which its context `torn` names");
    }

    #[tokio::test]
    async fn a_file_that_is_not_there_is_an_error() {
        let kubeconfig = "/nonexistent".into();
        let access = Access {
            kubeconfig,
            context: "plain".to_owned(),
            trusted: true,
            via: None,
            withheld: Default::default(),
            namespace: NAMESPACE.to_owned(),
        };
        let error = access.config().await.unwrap_err();
        assert_eq!(error.message, "there is no kubeconfig `/nonexistent`");
        let hint = "name the right file as `kubernetes.kubeconfig`; no other is taken in its place";
        assert_eq!(error.hint.as_deref(), Some(hint));
    }

    #[tokio::test]
    async fn whoever_gets_the_credentials_is_checked() {
        assert_eq!(error("blind").await.0, "context `blind` does not check the server's certificate");
        assert_eq!(error("open").await.0, "context `open` talks to `http://api.example:8080` in the open");
        assert_eq!(error("proxied").await.0, "context `proxied` goes through a proxy, which this version does not");
    }

    #[tokio::test]
    async fn a_login_that_runs_a_program_needs_trust() {
        let (message, hint) = error("program").await;
        assert_eq!(message, "context `program` runs the program `get-token` on this machine to log in");
        assert_eq!(hint, "pass `--trust` if you trust this kubeconfig as you trust a script");
        assert!(of("program", true).await.is_ok());
        assert_eq!(error("old").await.0, "context `old` logs in by the old `auth-provider` `gcp`");
    }

    #[tokio::test]
    async fn a_host_names_neither_programs_nor_files_of_this_machine() {
        let through = |context: &str| Access {
            kubeconfig: "/etc/kubernetes/admin.conf".into(),
            context: context.to_owned(),
            trusted: true,
            via: Some(HostName::new("cp-1")),
            withheld: Default::default(),
            namespace: NAMESPACE.to_owned(),
        };
        assert!(through("plain").of_text(FILE).await.is_ok());
        let error = through("program").of_text(FILE).await.unwrap_err();
        let hint = "no host names programs for this machine: use a kubeconfig of this machine, without `via`";
        assert_eq!(error.hint.as_deref(), Some(hint));
        let file = FILE.replace("token: hunter2", "client-key: /etc/key");
        let error = through("plain").of_text(&file).await.unwrap_err();
        assert_eq!(error.message, "context `plain` names the file `/etc/key`, which lies on `cp-1`");
    }

    #[tokio::test]
    async fn credentials_are_not_shown() {
        assert!(!format!("{:?}", of("plain", false).await.unwrap()).contains("hunter2"));
    }
}
