// The chart behind the scrubber: values of both sides in every state, marks of events at the top and the bottom, and
// where the recording stands.
// lines: [{values, colour, dash}], marks: [{at, colour, top}] in states; bounds: [low, high] that the chart shows at least.
function drawTimeline(canvas, { lines, marks, index, bounds }) {
  const ratio = window.devicePixelRatio || 1, count = lines[0].values.length;
  const width = Math.round(canvas.clientWidth * ratio), height = Math.round(canvas.clientHeight * ratio);
  if (width === 0 || count < 2) return;
  [canvas.width, canvas.height] = [width, height];
  const context = canvas.getContext("2d");
  const all = lines.flatMap((line) => line.values);
  const low = Math.min(...all, bounds[0]), high = Math.max(...all, bounds[1]);
  const margin = 9 * ratio;
  const x = (state) => (state / (count - 1)) * (width - 4 * ratio) + 2 * ratio;
  const y = (value) => height - margin - ((value - low) / (high - low)) * (height - 2 * margin);
  Object.assign(context, { lineJoin: "round", lineWidth: 2 * ratio });
  for (const { values, colour, dash } of lines) {
    context.strokeStyle = colour;
    context.setLineDash(dash ? [5 * ratio, 3 * ratio] : []);
    context.beginPath();
    values.forEach((value, state) => context.lineTo(x(state), y(value)));
    context.stroke();
  }
  for (const { at, colour, top } of marks) {
    context.fillStyle = colour;
    context.fillRect(x(at) - ratio, top ? 0 : height - 5 * ratio, 2 * ratio, 5 * ratio);
  }
  context.setLineDash([]);
  Object.assign(context, { strokeStyle: readColours(canvas, ["ink"]).ink, lineWidth: 1.5 * ratio });
  context.beginPath();
  context.moveTo(x(index), 0);
  context.lineTo(x(index), height);
  context.stroke();
}
