// Shows the page anew as long as the run goes on: the last drawing has no such script.
{
  const live = document.querySelector(".live"), { drawn, seconds } = live.dataset;
  const age = Date.now() / 1000 - drawn;
  if (age > 60 + 3 * seconds) {
    live.append(Object.assign(document.createElement("p"), { className: "note", textContent:
      `It has not been drawn for ${Math.round(age / 60)} min: nothing follows the run. make status tells where it is.` }));
  }
  const again = () => {
    // Whoever has just looked at a value, or reads another page, is not disturbed.
    if (document.hidden || Date.now() - moved < 10000) setTimeout(again, 1000);
    // Browsers keep the place to which the reader has scrolled; charts.js keeps what was zoomed to.
    else location.reload();
  };
  setTimeout(again, 1000 * seconds);
}
