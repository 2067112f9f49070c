/* Draws the page's plots with plotly, in the colours of the theme, and switches theme and axes. */
(() => {
  const root = document.documentElement;
  const panels = [...document.querySelectorAll(".panel")].map((node) => ({
    plot: node.querySelector(".plot"),
    spec: JSON.parse(node.querySelector("script").textContent),
  }));
  const colour = (name) => getComputedStyle(root).getPropertyValue(`--${name}`).trim();

  const faint = (hex) => `rgba(${[1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16)).join(",")},0.2)`;

  const coloured = (traces) => traces.map((trace) => {
    const meta = trace.meta || {};
    if (trace.type === "heatmap") {
      return { ...trace, colorscale: [[0, colour("heat-low")], [1, colour("heat-high")]], zmin: meta.pattern ? 0 : undefined, zmax: meta.pattern ? 1 : undefined };
    }
    const own = colour(`colour-${meta.colour || 0}`);
    if (trace.fill) return { ...trace, fillcolor: faint(own) };
    return trace.type === "bar" ? { ...trace, marker: { color: own } } : { ...trace, line: { ...trace.line, color: own } };
  });

  const axis = (own) => ({ ...own, gridcolor: colour("grid"), linecolor: colour("line"), showline: true, automargin: true });

  const layout = (own) => ({
    ...own,
    dragmode: window.matchMedia("(pointer: coarse)").matches ? false : "zoom", // a finger scrolls the page
    font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: colour("ink") },
    legend: { ...own.legend, maxheight: 0.9 },
    xaxis: axis(own.xaxis),
    yaxis: axis(own.yaxis),
    annotations: (own.annotations || []).map((note) => ({ ...note, font: { size: 11, color: colour("soft") } })),
    hoverlabel: { bgcolor: colour("card"), bordercolor: colour("line"), font: { color: colour("ink") } },
  });

  const config = { responsive: true, displayModeBar: false };

  const draw = ({ plot, spec }) => {
    const { data, layout: own } = spec.figure;
    const hidden = (plot.data || []).map((trace) => trace.visible);
    const traces = coloured(data).map((trace, k) => ({ ...trace, visible: hidden[k] === undefined ? trace.visible : hidden[k] }));
    return Plotly.react(plot, traces, layout(own), config);
  };

  const setTheme = (theme) => { root.dataset.theme = theme; panels.forEach(draw); };
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  let chosen = null;
  const theme = () => chosen || (system.matches ? "dark" : "light");
  system.addEventListener("change", () => setTheme(theme()));
  document.getElementById("theme").addEventListener("click", () => {
    chosen = theme() === "dark" ? "light" : "dark";
    setTheme(chosen);
  });
  setTheme(theme());

  // A legend speaks for all panels of its figure: curves of one name come and go together.
  panels.forEach(({ plot }) => plot.on("plotly_restyle", () => {
    const shown = new Map(plot.data.map((trace) => [trace.name, trace.visible]));
    panels.map((panel) => panel.plot)
      .filter((other) => other !== plot && other.closest("figure") === plot.closest("figure"))
      .forEach((other) => {
        const visible = other.data.map((trace) => (shown.has(trace.name) ? shown.get(trace.name) : trace.visible));
        if (visible.some((state, k) => state !== other.data[k].visible)) Plotly.restyle(other, { visible });
      });
  }));

  document.querySelectorAll(".switch").forEach((group) => {
    const figure = group.closest("figure");
    const mine = panels.filter(({ plot }) => figure.contains(plot));
    group.addEventListener("click", (event) => {
      const button = event.target.closest("button");
      if (!button) return;
      group.querySelectorAll("button").forEach((other) => other.setAttribute("aria-pressed", String(other === button)));
      mine.filter(({ spec }) => spec.switch).forEach((panel) => {
        const to = panel.spec.switch[button.dataset.axis];
        const { data, layout: own } = panel.spec.figure;
        data.forEach((trace, k) => { trace.x = to.x[k]; });
        own.xaxis = to.axis;
        draw(panel);
      });
    });
  });

  document.querySelectorAll(".copy").forEach((button) => button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(button.nextElementSibling.textContent);
    button.textContent = "copied";
    setTimeout(() => { button.textContent = "copy"; }, 1500);
  }));
})();
