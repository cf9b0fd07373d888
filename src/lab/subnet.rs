//! The 127.a.b.0/24 that a lab has for itself.
//!
//! A lab claims a subnet by listening on a fixed port of its first address, so that two labs on a machine, of
//! whatever user, never share one. The same listener serves the lab's own endpoint.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;

use tokio::net::TcpListener;

use super::LabError;
use super::record::Subnet;

/// The port of the claim.
pub(crate) const CLAIM_PORT: u16 = 27182;

/// First octet of a lab's subnets: from here up, far from what others use in 127.0.0.0/16.
const FIRST: u16 = 32;
const COUNT: u16 = (224 - FIRST) << 8;

/// Claims the given subnet, or a free one for a new world. The search begins at a place that the data folder's
/// name decides, so that a world that is down seldom finds its subnet taken.
pub(crate) async fn claim(data: &Path, wanted: Option<Subnet>) -> Result<(Subnet, TcpListener), LabError> {
    if let Some(subnet) = wanted {
        let address = (subnet.host(1), CLAIM_PORT);
        return match TcpListener::bind(address).await {
            Ok(listener) => Ok((subnet, listener)),
            Err(source) => Err(LabError::Subnet {
                subnet: subnet.host(0).to_string(),
                data: data.to_path_buf(),
                source,
            }),
        };
    }
    let mut hasher = DefaultHasher::new();
    data.hash(&mut hasher);
    let start = u16::try_from(hasher.finish() % u64::from(COUNT)).unwrap_or(0);
    let mut last = None;
    for step in 0..COUNT {
        let place = (u32::from(start) + u32::from(step)) % u32::from(COUNT) + (u32::from(FIRST) << 8);
        let [_, _, a, b] = place.to_be_bytes();
        let subnet = Subnet { a, b };
        match TcpListener::bind((subnet.host(1), CLAIM_PORT)).await {
            Ok(listener) => return Ok((subnet, listener)),
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => last = Some(error),
            // Anything else is no matter of one subnet.
            Err(source) => {
                return Err(LabError::Listen {
                    address: subnet.host(1).to_string(),
                    source,
                });
            }
        }
    }
    let source = last.unwrap_or_else(|| std::io::ErrorKind::AddrInUse.into());
    Err(LabError::Listen {
        address: "any of 127.32.0.0 to 127.223.255.0".to_owned(),
        source,
    })
}
