# The page, then the wheel that holds it, then an image with nothing but the installed wheel.
FROM node:22-slim AS page
WORKDIR /build/web
COPY web/package.json web/package-lock.json ./
RUN npm ci --no-audit --no-fund
COPY web ./
RUN npm run build

FROM python:3.13-slim AS wheel
WORKDIR /build
COPY pyproject.toml README.md LICENSE ./
COPY src src
COPY --from=page /build/src/whyrank/service/page src/whyrank/service/page
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.13-slim
RUN useradd --uid 10001 --create-home whyrank && mkdir /models /store && chown whyrank /models /store
COPY --from=wheel /wheels /wheels
RUN pip install --no-cache-dir "$(echo /wheels/*.whl)[serve,postgres,mine]" && rm -r /wheels
USER 10001
# Compiled kernels are stored with the rest, so that a new container does not compile them again.
ENV XDG_CACHE_HOME=/store/cache OMP_NUM_THREADS=1
VOLUME ["/store"]
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=120s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/readyz', timeout=4)"]
ENTRYPOINT ["whyrank"]
CMD ["serve", "/models/current", "--host", "0.0.0.0", "--store", "sqlite:////store/whyrank.db"]
