/** What a view shows, as a file: its table as CSV, its picture as PNG. Nothing leaves the page. */

export type Cell = string | number | null | undefined;

function hand(blob: Blob, name: string) {
  const url = URL.createObjectURL(blob);
  Object.assign(document.createElement("a"), { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

/** Quoted where needed; what a spreadsheet would take for a formula is written as text. */
function cell(value: Cell): string {
  if (value === null || value === undefined) return "";
  const text = typeof value === "string" && /^'*[=+\-@\t\r]/.test(value) ? `'${value}` : String(value);
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export function saveCsv(name: string, headers: string[], rows: Cell[][]) {
  const lines = [headers, ...rows].map((row) => row.map(cell).join(","));
  hand(new Blob([`${lines.join("\n")}\n`], { type: "text/csv;charset=utf-8" }), `${name}.csv`);
}

export const saveBlob = hand;

/** A copy that carries its computed style, so that it looks the same outside of the page. */
function dressed(element: Element): Element {
  const copy = element.cloneNode(false) as HTMLElement | SVGElement;
  const style = getComputedStyle(element);
  for (const property of style) copy.style?.setProperty(property, style.getPropertyValue(property));
  for (const child of element.childNodes) {
    if (child instanceof Element) {
      if (child.matches(".no-export, script, style") || !child.checkVisibility()) continue;
      copy.append(dressed(child));
    } else copy.append(child.cloneNode());
  }
  return copy;
}

/** An element of the page as a picture, twice as fine as the screen. */
export async function savePng(name: string, element: Element) {
  const FINE = 2;
  const { width, height } = element.getBoundingClientRect();
  const copy = dressed(element) as HTMLElement;
  copy.style.margin = "0";
  const background = getComputedStyle(document.body).backgroundColor;
  const holder = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const inside = document.createElementNS("http://www.w3.org/2000/svg", "foreignObject");
  for (const one of [holder, inside]) {
    one.setAttribute("width", String(width));
    one.setAttribute("height", String(height));
  }
  inside.append(copy);
  holder.append(inside);
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(holder))}`;
  await image.decode();
  const canvas = Object.assign(document.createElement("canvas"), { width: width * FINE, height: height * FINE });
  const pen = canvas.getContext("2d")!;
  pen.scale(FINE, FINE);
  pen.fillStyle = background;
  pen.fillRect(0, 0, width, height);
  pen.drawImage(image, 0, 0);
  const blob = await new Promise<Blob | null>((done) => canvas.toBlob(done, "image/png"));
  if (blob) hand(blob, `${name}.png`);
}
