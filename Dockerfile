# caffelite on CPUs; with --build-arg for NVIDIA GPUs. docs/deployment.md shows how to build and run it.
#
#   docker build -t caffelite .
#   docker build -t caffelite:cuda12 --build-arg BASE=nvidia/cuda:12.8.1-base-ubuntu24.04 --build-arg EXTRAS=cuda12,serve,onnx .

ARG BASE=debian:13-slim

FROM ${BASE} AS build
ARG EXTRAS=serve,onnx,onednn,digits
RUN apt-get update \
    && apt-get install -y --no-install-recommends python3 python3-venv \
    && rm -rf /var/lib/apt/lists/*
RUN python3 -m venv /opt/caffelite
WORKDIR /src
COPY constraints.txt setup.cfg pyproject.toml README.md LICENSE ./
COPY models ./models
COPY solvers ./solvers
COPY caffelite ./caffelite
RUN /opt/caffelite/bin/pip install --no-cache-dir -c constraints.txt ".[${EXTRAS}]"

FROM ${BASE}
RUN apt-get update \
    && apt-get install -y --no-install-recommends python3 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 10001 caffelite \
    && mkdir /models && chown caffelite /models
COPY --from=build /opt/caffelite /opt/caffelite
ENV PATH=/opt/caffelite/bin:$PATH PYTHONUNBUFFERED=1
USER caffelite
WORKDIR /models
VOLUME /models
EXPOSE 8080
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["python3", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8080/health', timeout=4)"]
ENTRYPOINT ["caffelite"]
CMD ["serve", "-only", "/models", "-host", "0.0.0.0", "-port", "8080"]
