//! The cluster's certificates and credentials.

use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use rand::RngExt as _;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PublicKeyData as _, SanType,
};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use super::error::LabKubeError;

/// Certificates and keys of one cluster. Kept with the saved world, so that kubeconfigs stay good over a restart.
#[derive(Clone, Serialize, Deserialize)]
pub struct KubePki {
    /// The certificate of the cluster's authority, PEM.
    pub ca_cert_pem: String,
    /// Its key, PEM.
    pub ca_key_pem: String,
    /// The certificate of the API server, PEM.
    pub server_cert_pem: String,
    /// Its key, PEM.
    pub server_key_pem: String,
    /// For which names and addresses the server's certificate is good.
    pub server_names: Vec<String>,
    /// The bearer token of the administrator.
    pub admin_token: String,
    /// The key that kubelet credentials are signed with.
    pub token_key: String,
}

impl std::fmt::Debug for KubePki {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KubePki")
            .field("server_names", &self.server_names)
            .finish_non_exhaustive()
    }
}

fn pki_error(error: impl std::fmt::Display) -> LabKubeError {
    LabKubeError::Pki(error.to_string())
}

/// The authority's certificate is always made from these, so that it can issue again after a restart.
fn authority() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "kubernetes");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::CrlSign,
        KeyUsagePurpose::DigitalSignature,
    ];
    params.not_before = rcgen::date_time_ymd(2020, 1, 1);
    params.not_after = rcgen::date_time_ymd(2099, 1, 1);
    params
}

/// Random letters and digits.
pub(crate) fn random_text(length: usize) -> String {
    const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyz0123456789";
    let mut rng = rand::rng();
    (0..length)
        .filter_map(|_| LETTERS.get(rng.random_range(0..LETTERS.len())))
        .map(|c| *c as char)
        .collect()
}

impl KubePki {
    /// Makes an authority and a server certificate for the names.
    pub(crate) fn generate(server_names: &[String]) -> Result<Self, LabKubeError> {
        let key = KeyPair::generate().map_err(pki_error)?;
        let certificate = authority().self_signed(&key).map_err(pki_error)?;
        let mut pki = Self {
            ca_cert_pem: certificate.pem(),
            ca_key_pem: key.serialize_pem(),
            server_cert_pem: String::new(),
            server_key_pem: String::new(),
            server_names: Vec::new(),
            admin_token: random_text(24),
            token_key: random_text(32),
        };
        pki.cover(server_names)?;
        Ok(pki)
    }

    /// Makes a new server certificate if the present one is not good for all the names.
    pub(crate) fn cover(&mut self, server_names: &[String]) -> Result<(), LabKubeError> {
        if !self.server_cert_pem.is_empty()
            && server_names.iter().all(|name| self.server_names.contains(name))
        {
            return Ok(());
        }
        let mut names = self.server_names.clone();
        names.extend(
            server_names
                .iter()
                .filter(|name| !self.server_names.contains(name))
                .cloned(),
        );
        let issuer = Issuer::new(
            authority(),
            KeyPair::from_pem(&self.ca_key_pem).map_err(pki_error)?,
        );
        let key = KeyPair::generate().map_err(pki_error)?;
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params
            .distinguished_name
            .push(DnType::CommonName, "kube-apiserver");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.key_usages = vec![
            KeyUsagePurpose::DigitalSignature,
            KeyUsagePurpose::KeyEncipherment,
        ];
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2099, 1, 1);
        for name in &names {
            params.subject_alt_names.push(match name.parse::<IpAddr>() {
                Ok(address) => SanType::IpAddress(address),
                Err(_) => SanType::DnsName(name.as_str().try_into().map_err(pki_error)?),
            });
        }
        let certificate = params.signed_by(&key, &issuer).map_err(pki_error)?;
        self.server_cert_pem = certificate.pem();
        self.server_key_pem = key.serialize_pem();
        self.server_names = names;
        Ok(())
    }

    /// `sha256:<hex>` of the authority's public key, as `kubeadm` prints it for a join.
    pub(crate) fn ca_cert_hash(&self) -> String {
        let Ok(key) = KeyPair::from_pem(&self.ca_key_pem) else {
            return String::new();
        };
        format!("sha256:{}", hex(&Sha256::digest(key.subject_public_key_info())))
    }

    /// The credential of a kubelet: its node's name with a signature, so that nothing has to be remembered.
    pub(crate) fn kubelet_token(&self, node_name: &str) -> String {
        let signature = Hmac::<Sha256>::new_from_slice(self.token_key.as_bytes())
            .map(|mac| {
                mac.chain_update(node_name.as_bytes())
                    .finalize()
                    .into_bytes()
                    .to_vec()
            })
            .unwrap_or_default();
        format!("kubelet.{node_name}.{}", hex(&signature))
    }

    /// Who a bearer token belongs to.
    pub(crate) fn user_of(&self, token: &str) -> Option<String> {
        let same = |wanted: &str| bool::from(wanted.as_bytes().ct_eq(token.as_bytes()));
        if same(&self.admin_token) {
            return Some("kubernetes-admin".to_owned());
        }
        let (node_name, _) = token.strip_prefix("kubelet.")?.rsplit_once('.')?;
        same(&self.kubelet_token(node_name)).then(|| format!("system:node:{node_name}"))
    }

    /// A kubeconfig with the authority's certificate embedded.
    pub(crate) fn kubeconfig(&self, server_url: &str, user: &str, token: &str) -> String {
        let authority = STANDARD.encode(self.ca_cert_pem.as_bytes());
        format!(
            "apiVersion: v1\nkind: Config\nclusters:\n- name: kubernetes\n  cluster:\n    server: {server_url}\n    \
             certificate-authority-data: {authority}\nusers:\n- name: {user}\n  user:\n    token: {token}\ncontexts:\n\
             - name: {user}@kubernetes\n  context:\n    cluster: kubernetes\n    user: {user}\n\
             current-context: {user}@kubernetes\npreferences: {{}}\n"
        )
    }
}

/// Lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
            let _unused = write!(text, "{byte:02x}");
            text
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubelet_token_names_its_node_and_cannot_be_made_up() {
        let pki = KubePki::generate(&["127.0.0.1".to_owned(), "api.example.org".to_owned()]).unwrap();
        let token = pki.kubelet_token("n-1.example.org");
        assert_eq!(
            pki.user_of(&token).as_deref(),
            Some("system:node:n-1.example.org")
        );
        assert_eq!(pki.user_of(&token.replace("n-1", "n-2")), None);
        assert_eq!(pki.user_of(&pki.admin_token).as_deref(), Some("kubernetes-admin"));
        assert_eq!(pki.user_of("wrong"), None);
    }

    #[test]
    fn the_server_certificate_is_made_anew_only_for_a_new_name() {
        let mut pki = KubePki::generate(&["127.0.0.1".to_owned()]).unwrap();
        let (before, hash) = (pki.server_cert_pem.clone(), pki.ca_cert_hash());
        pki.cover(&["127.0.0.1".to_owned()]).unwrap();
        assert_eq!(pki.server_cert_pem, before);
        pki.cover(&["127.9.9.9".to_owned()]).unwrap();
        assert_ne!(pki.server_cert_pem, before);
        assert_eq!(pki.server_names, ["127.0.0.1", "127.9.9.9"]);
        assert_eq!(pki.ca_cert_hash(), hash);
        assert!(hash.starts_with("sha256:") && hash.len() == 71);
    }
}
