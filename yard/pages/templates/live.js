// Shows the page anew as long as the run goes on: the last drawing has no such script.
{
  const live = document.querySelector(".live"), { drawn, seconds } = live.dataset;
  const age = Date.now() / 1000 - drawn;
  if (age > 60 + 3 * seconds) {
    live.append(Object.assign(document.createElement("p"), { className: "note", textContent:
      `It has not been drawn for ${Math.round(age / 60)} min: nothing follows the run. make status tells where it is.` }));
  }
  const again = () => {
    // Whoever reads a value under the pointer, or another page, is not disturbed.
    if (document.hidden || document.querySelector(".tip:not([hidden])")) setTimeout(again, 1000);
    else location.reload();  // browsers keep the place to which the reader has scrolled
  };
  setTimeout(again, 1000 * seconds);
}
