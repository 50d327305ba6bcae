"""Colours as people see them: contrast of text, and colours as the colour-blind see them."""

from __future__ import annotations

from typing import Any

import numpy as np
from playwright.sync_api import Page

BLINDNESS = {
    "none": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}
"""What is left of linear RGB: Machado, Oliveira and Fernandes, "A Physiologically-based Model for Simulation of Color
Vision Deficiency" (2009), severity 1."""
TO_XYZ = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
WHITE = (0.9505, 1, 1.089)
TEXTS = """() => {
  const context = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const mixed = (layers) => {
    for (const [colour, alpha] of layers) {
      context.globalAlpha = alpha;
      context.fillStyle = colour;
      context.fillRect(0, 0, 1, 1);
    }
    return [...context.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const amber = [getComputedStyle(document.documentElement).getPropertyValue("--window"), 0.3];
  const found = [];
  for (const part of document.querySelectorAll("body *")) {
    const own = [...part.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim());
    if (!own || !part.checkVisibility({ visibilityProperty: true }) || !part.getClientRects().length) continue;
    const colour = getComputedStyle(part).color, layers = [];
    for (let outer = part; outer; outer = outer.parentElement) {
      layers.unshift([getComputedStyle(outer).backgroundColor, 1]);
      if (outer.id === "canvas") layers.unshift(null);
    }
    const shaded = layers.indexOf(null) >= 0;
    for (const shade of shaded ? [[], [amber]] : [[]]) {
      const ground = [["Canvas", 1], ...layers.flatMap((layer) => layer ? [layer] : shade)];
      const name = [part.tagName, part.className, part.textContent.slice(0, 30), shade.length ? "in the window" : ""];
      found.push([name.join(" "), mixed([...ground, [colour, 1]]), mixed(ground)]);
    }
  }
  return found;
}"""
"""The texts in sight, with the colour of each and that of the ground below it, both as three bytes."""

Colour = Any


def linear(colour: Colour) -> np.ndarray:
    """Linear RGB from 0 to 1 of a colour of three bytes."""
    share = np.asarray(colour, float) / 255
    return np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)


def contrast(one: Colour, other: Colour) -> float:
    """The contrast ratio of the Web Content Accessibility Guidelines, from 1 to 21."""
    low, high = sorted(float(linear(each) @ TO_XYZ[1]) for each in (one, other))
    return (high + 0.05) / (low + 0.05)


def low_contrasts(page: Page, least: float = 4.5) -> dict[str, float]:
    """The texts in sight that stand out less than they should, by what they say."""
    found = {name: contrast(colour, ground) for name, colour, ground in page.evaluate(TEXTS)}
    assert len(found) > 30
    return {name: round(ratio, 2) for name, ratio in found.items() if ratio < least}


def lab(colour: Colour, blindness: str) -> np.ndarray:
    """A colour as someone sees it, in CIE L*a*b*, where a distance of 2 can just be seen."""
    seen = np.clip(np.asarray(BLINDNESS[blindness]) @ linear(colour), 0, 1)
    share = np.asarray(TO_XYZ) @ seen / WHITE
    x, y, z = np.where(share > 0.008856, np.cbrt(share), 7.787 * share + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def distance(one: Colour, other: Colour, blindness: str) -> float:
    """How far apart two colours are for someone."""
    return float(np.linalg.norm(lab(one, blindness) - lab(other, blindness)))
