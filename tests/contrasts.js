// The visible texts of a page that stand out from their ground by less than 4.5.
() => {
  const rgb = text => (text.match(/[\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, at) => sum + v * [0.2126, 0.7152, 0.0722][at], 0);
  const back = one => { for (; one; one = one.parentElement) { const c = rgb(getComputedStyle(one).backgroundColor);
    if (c.length === 3 || c[3] === 1) return c; } return [255, 255, 255]; };
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), bad = [];
  while (walk.nextNode()) { const one = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || !one.checkVisibility()) continue;
    const style = getComputedStyle(one), ink = rgb(one instanceof SVGElement ? style.fill : style.color);
    const [low, high] = [light(ink), light(back(one))].sort((a, b) => a - b);
    if ((high + 0.05) / (low + 0.05) < 4.5) bad.push(one.className + ': ' + walk.currentNode.data.slice(0, 40)); }
  return [...new Set(bad)]; }
