import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";

// Relative URLs, so that the page works behind any path prefix; no polyfill, so that no script is inline.
export default defineConfig({
  base: "./",
  plugins: [svelte()],
  build: {
    outDir: "../src/whyrank/service/page",
    emptyOutDir: true,
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
  },
  server: { proxy: { "/v1": process.env.WHYRANK_URL ?? "http://127.0.0.1:8000" } },
});
