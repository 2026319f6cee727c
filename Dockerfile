# Two stages: the first has pip and the build tools, the second only what runs.
FROM python:3.13-slim AS build
WORKDIR /src
RUN python -m venv /opt/gateway
COPY requirements.lock ./
RUN /opt/gateway/bin/pip install --no-cache-dir --require-hashes -r requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY gateway ./gateway
COPY providers ./providers
RUN /opt/gateway/bin/pip install --no-cache-dir --no-deps --no-build-isolation .

FROM python:3.13-slim
# a fixed number, so that a volume's owner can be set from outside
RUN useradd --uid 10001 --create-home --shell /usr/sbin/nologin gateway \
 && install -d -o gateway -g gateway -m 0700 /state
COPY --from=build /opt/gateway /opt/gateway
USER gateway
# Other addresses than loopback are refused without WEBSEARCH_TOKEN (or WEBSEARCH_TOKENS, or a file with tokens).
ENV PATH=/opt/gateway/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    WEBSEARCH_HOST=0.0.0.0 \
    WEBSEARCH_PORT=8787 \
    WEBSEARCH_STATE=/state
VOLUME /state
EXPOSE 8787
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=5s --start-period=10s \
  CMD ["python", "-c", "import os, urllib.request as r; r.urlopen('http://127.0.0.1:' + os.environ['WEBSEARCH_PORT'] + '/healthz', timeout=4)"]
ENTRYPOINT ["websearch-gateway"]
CMD ["serve"]
