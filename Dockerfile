# Treadle with git and bubblewrap. Checked with hadolint 2.15.1; not built or run by us yet.
#   docker build -t treadle . && docker run --rm -it treadle demo
#   docker run --rm -it -v "$PWD:/work" -e ANTHROPIC_API_KEY treadle
# Confinement inside a container needs user namespaces: add --security-opt seccomp=unconfined, or rely on the container.
FROM python:3.13-slim-bookworm
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends bubblewrap git make ripgrep \
    && rm -rf /var/lib/apt/lists/*
COPY . /src
RUN pip install --no-cache-dir '/src[all]' && rm -rf /src \
    && useradd --create-home --uid 1000 agent && mkdir /work && chown agent /work
USER 1000
WORKDIR /work
ENTRYPOINT ["treadle"]
