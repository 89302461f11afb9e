# Treadle with git and bubblewrap. Written and linted, not yet built by us.
#   docker build -t treadle . && docker run --rm -it treadle demo
#   docker run --rm -it -v "$PWD:/work" -e ANTHROPIC_API_KEY treadle
# Confinement inside a container needs user namespaces: add --security-opt seccomp=unconfined, or rely on the container.
FROM python:3.13-slim-bookworm
RUN apt-get update \
    && apt-get install -y --no-install-recommends bubblewrap git make ripgrep \
    && rm -rf /var/lib/apt/lists/*
COPY . /src
RUN pip install --no-cache-dir '/src[all]' && rm -rf /src \
    && useradd --create-home agent && mkdir /work && chown agent /work
USER agent
WORKDIR /work
ENTRYPOINT ["treadle"]
