//! Selects the API and the user: one kubeconfig and one context in it.

use super::KubeError;
use crate::object::ClusterAbsence;
use crate::object::ClusterAccess;
use ::kube::Config;
use ::kube::config::{AuthInfo, Cluster, KubeConfigOptions, Kubeconfig, KubeconfigError};
use std::time::Duration;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const READ_TIMEOUT: Duration = Duration::from_secs(30);

impl ClusterAccess {
    /// Reads the file on this machine and returns the client configuration.
    ///
    /// # Errors
    /// The file does not exist, and as [`ClusterAccess::parse_config`].
    pub async fn load_config(&self) -> Result<Config, KubeError> {
        let text = fs_err::read_to_string(&self.kubeconfig).map_err(|error| self.unreadable_error(&error))?;
        self.parse_config(&text).await
    }

    /// Returns the client configuration from the text of a kubeconfig.
    ///
    /// # Errors
    /// The context does not exist, its login runs a program without trust, or it disables the check of the server's
    /// certificate.
    pub async fn parse_config(&self, text: &str) -> Result<Config, KubeError> {
        let mut file = Kubeconfig::from_yaml(text).map_err(|error| self.unparsed_error(&error))?;
        for exec in file.auth_infos.iter_mut().filter_map(|user| user.auth_info.as_mut()?.exec.as_mut()) {
            exec.drop_env.get_or_insert_default().extend(self.withheld.iter().cloned());
        }
        let (cluster, user) = self.select_context(&file)?;
        self.check_server(cluster)?;
        self.check_login(user)?;
        self.check_files(cluster, user)?;
        let options = KubeConfigOptions { context: Some(self.context.clone()), cluster: None, user: None };
        let mut config =
            Config::from_custom_kubeconfig(file, &options).await.map_err(|error| self.unusable_error(&error))?;
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        config.read_timeout = Some(READ_TIMEOUT);
        // Proxy variables of this machine are not part of the declaration.
        config.proxy_url = None;
        // Callers decide on retries: a PodDisruptionBudget refuses with 429, too.
        config.default_retry = false;
        Ok(config)
    }

    fn unreadable_error(&self, error: &std::io::Error) -> KubeError {
        match error.kind() {
            std::io::ErrorKind::NotFound => KubeError::new(format!("kubeconfig `{}` not found", self.kubeconfig))
                .with_absence(ClusterAbsence::NoKubeconfig)
                .hint("set `kubernetes.kubeconfig` to the right file; there is no fallback"),
            kind => KubeError::new(format!("kubeconfig `{}` cannot be read: {kind}", self.kubeconfig)),
        }
    }

    /// Names the place only: the parser quotes lines of the file, which holds tokens and keys.
    fn unparsed_error(&self, error: &KubeconfigError) -> KubeError {
        let KubeconfigError::Parse(error) = error else { return self.unusable_error(error) };
        let place = error.location().map(|at| format!(" at line {}, column {}", at.line(), at.column()));
        KubeError::new(format!(
            "invalid kubeconfig `{}`: a mistake in its YAML, or a field of the wrong type{}",
            self.kubeconfig,
            place.unwrap_or_default()
        ))
        .hint("`kubectl config view --kubeconfig FILE` shows it without secrets once it is valid")
    }

    fn unusable_error(&self, error: &dyn std::error::Error) -> KubeError {
        KubeError::new(format!("invalid kubeconfig `{}`: {error}", self.kubeconfig))
    }

    /// Returns the cluster and the user of the context.
    fn select_context<'f>(&self, file: &'f Kubeconfig) -> Result<(&'f Cluster, Option<&'f AuthInfo>), KubeError> {
        let named = file.contexts.iter().find(|context| context.name == self.context);
        let context =
            named.and_then(|context| context.context.as_ref()).ok_or_else(|| self.missing_context_error(file))?;
        let cluster = file.clusters.iter().find(|cluster| cluster.name == context.cluster);
        let cluster = cluster.and_then(|cluster| cluster.cluster.as_ref()).ok_or_else(|| {
            let (path, context_name, cluster) = (&self.kubeconfig, &self.context, &context.cluster);
            KubeError::new(format!(
                "kubeconfig `{path}` has no cluster `{cluster}`, which context `{context_name}` refers to"
            ))
        })?;
        let user = file.auth_infos.iter().find(|user| Some(&user.name) == context.user.as_ref());
        Ok((cluster, user.and_then(|user| user.auth_info.as_ref())))
    }

    fn missing_context_error(&self, file: &Kubeconfig) -> KubeError {
        let error = KubeError::new(format!("kubeconfig `{}` has no context `{}`", self.kubeconfig, self.context));
        let names: Vec<String> = file.contexts.iter().map(|context| format!("`{}`", context.name)).collect();
        match names.is_empty() {
            true => error.hint("it defines no contexts"),
            false => error.hint(format!("available contexts: {}", names.join(", "))),
        }
    }

    /// Checks the server: it receives the credentials, so it must be the intended one.
    fn check_server(&self, cluster: &Cluster) -> Result<(), KubeError> {
        if cluster.insecure_skip_tls_verify == Some(true) {
            let error = KubeError::new(format!("context `{}` does not check the server's certificate", self.context));
            return Err(error.hint("replace `insecure-skip-tls-verify` with `certificate-authority`"));
        }
        if cluster.proxy_url.as_ref().is_some_and(|url| !url.is_empty()) {
            let error = KubeError::new(format!("context `{}` uses a proxy, which is not supported", self.context));
            return Err(error.hint("use an address of the API that this machine can reach directly"));
        }
        let server = cluster.server.as_deref().unwrap_or_default();
        let here = ["http://127.0.0.1:", "http://localhost:", "http://[::1]:"];
        if server.starts_with("http://") && !here.iter().any(|prefix| server.starts_with(prefix)) {
            let error = KubeError::new(format!("context `{}` uses unencrypted `{server}`", self.context));
            return Err(error.hint("use an address that begins with `https://`"));
        }
        Ok(())
    }

    fn check_login(&self, user: Option<&AuthInfo>) -> Result<(), KubeError> {
        let Some(user) = user else { return Ok(()) };
        if let Some(provider) = &user.auth_provider {
            let error = KubeError::new(format!(
                "context `{}` uses the removed `auth-provider` `{}`",
                self.context, provider.name
            ));
            return Err(error.hint("use a credential plugin under `exec` instead"));
        }
        let Some(exec) = user.exec.as_ref().filter(|_| !self.trusted || self.via.is_some()) else { return Ok(()) };
        let program = exec.command.as_deref().unwrap_or_default();
        let what = format!("context `{}` runs the program `{program}` on this machine to log in", self.context);
        let error = KubeError::new(what);
        Err(match self.via {
            None => error.hint("pass `--trust` to allow it, if you trust this kubeconfig like a script"),
            // Otherwise root on that host could run programs as the user on this machine.
            Some(_) => {
                error.hint("use a kubeconfig of this machine, without `via`: a host may not name programs to run here")
            }
        })
    }

    /// Rejects file references in a host's kubeconfig: this machine may have other files of the same names.
    fn check_files(&self, cluster: &Cluster, user: Option<&AuthInfo>) -> Result<(), KubeError> {
        let Some(host) = &self.via else { return Ok(()) };
        let of = |user: &AuthInfo| [user.client_certificate.clone(), user.client_key.clone(), user.token_file.clone()];
        let named = user.map(of).into_iter().flatten().chain([cluster.certificate_authority.clone()]);
        let Some(file) = named.flatten().find(|file| !file.is_empty()) else { return Ok(()) };
        let error = KubeError::new(format!("context `{}` refers to the file `{file}` on `{host}`", self.context));
        Err(error.hint("embed the file in the kubeconfig: `kubectl config view --flatten --raw`"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::HostName;
    use crate::object::DEFAULT_NAMESPACE;
    use camino::Utf8PathBuf;

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

    async fn load_test_context(context: &str, trusted: bool) -> Result<Config, KubeError> {
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = Utf8PathBuf::from_path_buf(folder.path().join("config")).unwrap();
        std::fs::write(&kubeconfig, FILE).unwrap();
        let access = ClusterAccess {
            kubeconfig,
            context: context.to_owned(),
            trusted,
            via: None,
            withheld: Default::default(),
            namespace: DEFAULT_NAMESPACE.to_owned(),
            retry_s: 0,
        };
        access
            .load_config()
            .await
            .map_err(|error| KubeError { message: error.message.replace(access.kubeconfig.as_str(), "FILE"), ..error })
    }

    async fn load_context_error(context: &str) -> (String, String) {
        let error = load_test_context(context, false).await.unwrap_err();
        (error.message, error.hint.unwrap_or_default())
    }

    #[tokio::test]
    async fn only_the_named_context_is_used() {
        assert_eq!(load_test_context("plain", false).await.unwrap().cluster_url, "https://127.0.0.1:6443/");
        let (message, hint) = load_context_error("prod").await;
        assert_eq!(message, "kubeconfig `FILE` has no context `prod`");
        assert_eq!(hint, "available contexts: `plain`, `blind`, `open`, `proxied`, `program`, `old`, `torn`");
        let torn = "kubeconfig `FILE` has no cluster `gone`, which context `torn` refers to";
        assert_eq!(load_context_error("torn").await.0, torn);
    }

    /// The parser quotes the lines around a mistake.
    #[tokio::test]
    async fn error_of_a_kubeconfig_quotes_nothing_of_it() {
        for text in ["users:\n- name: a\n  user:\n    token: hunter2secret\n     oops: [\n", "users: hunter2secret\n"] {
            let error = access_to("/k".into()).parse_config(text).await.unwrap_err();
            let all = format!("{} {:?}", error.message, error.hint);
            assert!(!all.contains("hunter2"), "{all}");
            assert!(
                all.starts_with("invalid kubeconfig `/k`: a mistake in its YAML, or a field of the wrong type"),
                "{all}"
            );
        }
    }

    fn access_to(kubeconfig: camino::Utf8PathBuf) -> ClusterAccess {
        ClusterAccess {
            kubeconfig,
            context: "plain".to_owned(),
            trusted: true,
            via: None,
            withheld: Default::default(),
            namespace: DEFAULT_NAMESPACE.to_owned(),
            retry_s: 0,
        }
    }

    #[tokio::test]
    async fn missing_kubeconfig_is_an_error() {
        let error = access_to("/nonexistent".into()).load_config().await.unwrap_err();
        assert_eq!(error.message, "kubeconfig `/nonexistent` not found");
        let hint = "set `kubernetes.kubeconfig` to the right file; there is no fallback";
        assert_eq!(error.hint.as_deref(), Some(hint));
    }

    #[tokio::test]
    async fn insecure_server_connections_are_rejected() {
        assert_eq!(load_context_error("blind").await.0, "context `blind` does not check the server's certificate");
        assert_eq!(load_context_error("open").await.0, "context `open` uses unencrypted `http://api.example:8080`");
        assert_eq!(load_context_error("proxied").await.0, "context `proxied` uses a proxy, which is not supported");
    }

    #[tokio::test]
    async fn login_program_requires_trust() {
        let (message, hint) = load_context_error("program").await;
        assert_eq!(message, "context `program` runs the program `get-token` on this machine to log in");
        assert_eq!(hint, "pass `--trust` to allow it, if you trust this kubeconfig like a script");
        assert!(load_test_context("program", true).await.is_ok());
        assert_eq!(load_context_error("old").await.0, "context `old` uses the removed `auth-provider` `gcp`");
    }

    #[tokio::test]
    async fn kubeconfig_from_a_host_cannot_name_local_programs_or_files() {
        let through = |context: &str| ClusterAccess {
            kubeconfig: "/etc/kubernetes/admin.conf".into(),
            context: context.to_owned(),
            trusted: true,
            via: Some(HostName::new("cp-1")),
            withheld: Default::default(),
            namespace: DEFAULT_NAMESPACE.to_owned(),
            retry_s: 0,
        };
        assert!(through("plain").parse_config(FILE).await.is_ok());
        let error = through("program").parse_config(FILE).await.unwrap_err();
        let hint = "use a kubeconfig of this machine, without `via`: a host may not name programs to run here";
        assert_eq!(error.hint.as_deref(), Some(hint));
        let file = FILE.replace("token: hunter2", "client-key: /etc/key");
        let error = through("plain").parse_config(&file).await.unwrap_err();
        assert_eq!(error.message, "context `plain` refers to the file `/etc/key` on `cp-1`");
    }

    #[tokio::test]
    async fn credentials_are_not_shown() {
        assert!(!format!("{:?}", load_test_context("plain", false).await.unwrap()).contains("hunter2"));
    }
}
